"""Every kind of rule, and the rules that are there without any configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.alerting.rules import table
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import DEFAULT_RULES, RULE_DEFINITIONS, combined, default_rule
from monitor.model.alert_texts import COMMON_FIELDS, check_template


@pytest.mark.parametrize("kind", RuleKind)
def test_a_kind_of_rule_is_defined_in_the_module_of_its_name(kind: RuleKind) -> None:
    """Nothing else names it: the table, `check` and the documentation read its definition."""
    definition = RULE_DEFINITIONS[kind]

    assert definition.rule is kind
    assert definition.about.endswith(".")
    assert definition.on_event is not None or definition.evaluate is not None
    assert not set(definition.template_fields) & set(COMMON_FIELDS)


def test_no_definition_is_left_out_of_the_list() -> None:
    """A module with a definition is one of `RuleKind`."""
    folder = Path(table.__file__).parent
    defining = {path.stem for path in folder.glob("*.py") if "\nDEFINITION" in path.read_text()}
    assert defining == set(RuleKind)


def test_an_alert_inhibits_what_names_it() -> None:
    """Each rule names what inhibits it; the table holds both directions."""
    for rule, definition in RULE_DEFINITIONS.items():
        for other in (*definition.inhibited_by, *definition.reminders_inhibited_by):
            assert rule in RULE_DEFINITIONS[other].inhibits
    outage = RULE_DEFINITIONS[RuleKind.WORKSPACE_UNREACHABLE].inhibits
    assert {RuleKind.RUN_FAILED, RuleKind.NOT_FRESH} <= set(outage)
    assert RuleKind.TOKEN_EXPIRING not in outage


def test_only_cancellations_and_deadlines_are_not_alerted_by_default() -> None:
    """All else is without a word of configuration: people cancel on purpose, and set deadlines."""
    without = {RuleKind.CANCELED, RuleKind.DEADLINE_MISSED, RuleKind.DEADLINE_AT_RISK}
    assert set(RuleKind) - {rule.rule for rule in DEFAULT_RULES} == without


@pytest.mark.parametrize("kind", RuleKind)
def test_a_default_is_within_its_own_limits(kind: RuleKind) -> None:
    """Each default value could also be configured."""
    definition = RULE_DEFINITIONS[kind]
    for quantity in (definition.threshold, definition.window, definition.minimum):
        if quantity is not None and quantity.default is not None:
            assert quantity.problem(quantity.default) is None
    assert set(definition.match_fields) <= set(Match.__struct_fields__)


@pytest.mark.parametrize("kind", RuleKind)
def test_a_default_text_names_only_fields_that_its_alerts_have(kind: RuleKind) -> None:
    """Every kind of rule has its runbook, and texts that can be filled in."""
    annotations = default_rule(kind).annotations
    fields = RULE_DEFINITIONS[kind].annotation_fields
    assert set(annotations) == {"summary", "description", "runbook_url"}
    for text in annotations.values():
        assert text
        check_template(text, fields)


def test_an_own_rule_replaces_the_default_of_its_name() -> None:
    """It takes its place; a rule of another name stands beside the defaults."""
    own = RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED, for_seconds=60)
    other = RuleSettings(name="sales_failed", rule=RuleKind.RUN_FAILED)

    rules = combined((own, other), with_defaults=True)

    assert [rule.name for rule in rules] == [*(rule.name for rule in DEFAULT_RULES), "sales_failed"]
    assert own in rules


def test_a_default_can_be_removed_alone_or_with_all_others() -> None:
    """One by a rule of its name that is not enabled, all by ``defaults = false``."""
    off = RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED, is_enabled=False)
    own = RuleSettings(name="mine", rule=RuleKind.CANCELED)

    assert "run_failed" not in {rule.name for rule in combined((off,), with_defaults=True)}
    assert combined((off, own), with_defaults=False) == (own,)
