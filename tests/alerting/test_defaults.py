"""The rules that are there without any configuration."""

from __future__ import annotations

import pytest

from monitor.alerting.rules.defaults import DEFAULT_RULES, RULES, combined, default_rule
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.alerting.settings.rules import Match, RuleKind, RuleSettings
from monitor.alerting.settings.templates import COMMON_FIELDS, template


def test_every_kind_of_rule_is_described() -> None:
    """A new kind fails here until it has its defaults."""
    assert set(RULES) == set(RuleKind)


@pytest.mark.parametrize("kind", RuleKind)
def test_templates_may_name_what_the_condition_tells(kind: RuleKind) -> None:
    """The fields that `check` knows are those that alerts of the kind have; none is left out."""
    definition = RULE_DEFINITIONS[kind]

    assert definition.rule is kind
    assert sorted(definition.template_fields) == sorted(RULES[kind].fields)
    assert not set(definition.template_fields) & set(COMMON_FIELDS)


def test_only_cancellations_are_not_told_by_default() -> None:
    """All else is told without a word of configuration: people cancel on purpose."""
    assert set(RuleKind) - {rule.rule for rule in DEFAULT_RULES} == {RuleKind.CANCELED}


@pytest.mark.parametrize("kind", RuleKind)
def test_a_default_is_within_its_own_limits(kind: RuleKind) -> None:
    """What is set by default could also be configured."""
    defaults = RULES[kind]
    for quantity in (defaults.threshold, defaults.window, defaults.minimum):
        if quantity is not None and quantity.default is not None:
            assert quantity.holds(quantity.default)
    assert set(defaults.match) <= set(Match.__struct_fields__)


@pytest.mark.parametrize("kind", RuleKind)
def test_a_default_text_names_only_fields_that_its_alerts_have(kind: RuleKind) -> None:
    """Every kind of rule has a summary and a description that can be filled in."""
    annotations = default_rule(kind).annotations
    assert set(annotations) == {"summary", "description"}
    assert all(template(text, RULES[kind].template_fields) for text in annotations.values())


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

    assert "run_failed" not in {item.name for item in combined((off,), with_defaults=True)}
    assert combined((off, own), with_defaults=False) == (own,)
