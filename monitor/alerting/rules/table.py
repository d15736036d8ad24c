"""Every rule kind, by its name, and the rules that are made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType

import msgspec

from monitor.alerting.rules.contract import AnyRuleDefinition, Quantity
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings


def _load_definitions() -> Mapping[RuleKind, AnyRuleDefinition]:
    # By name, so that `RuleKind` is the only list in which a new kind has to stand.
    definitions: dict[RuleKind, AnyRuleDefinition] = {
        rule: import_module(f"monitor.alerting.rules.{rule}").DEFINITION for rule in RuleKind
    }
    return MappingProxyType({
        rule: replace(definition, inhibits=tuple(
            other.rule
            for other in definitions.values()
            if rule in (*other.inhibited_by, *other.reminders_inhibited_by)
        ))
        for rule, definition in definitions.items()
    })  # fmt: skip


RUNBOOKS = "deploy/runbooks.md"  # in this project, as in the rules for Prometheus
_RUNBOOK = "runbook_url"

RULE_DEFINITIONS = _load_definitions()


def default_rule(kind: RuleKind) -> RuleSettings:
    """Return the rule of that kind as it is where nothing is configured."""
    definition = RULE_DEFINITIONS[kind]
    return RuleSettings(
        name=kind.value,
        rule=kind,
        threshold=_default(definition.threshold),
        window_seconds=_default(definition.window),
        minimum=int(_default(definition.minimum)),
        for_seconds=definition.for_seconds,
        severity=definition.severity,
        annotations={
            "summary": definition.summary,
            "description": definition.description,
            _RUNBOOK: f"{RUNBOOKS}#{kind}",
        },
    )


def with_runbooks_at(rules: tuple[RuleSettings, ...], location: str) -> tuple[RuleSettings, ...]:
    """Return the rules with their runbooks there; those of a rule's own stay."""
    return tuple(
        msgspec.structs.replace(
            rule, annotations={**rule.annotations, _RUNBOOK: f"{location}#{rule.rule}"}
        )
        if rule.annotations.get(_RUNBOOK) == f"{RUNBOOKS}#{rule.rule}"
        else rule
        for rule in rules
    )


def _default(quantity: Quantity | None) -> float:
    return 0.0 if quantity is None or quantity.default is None else quantity.default


DEFAULT_RULES: tuple[RuleSettings, ...] = tuple(
    default_rule(kind) for kind, definition in RULE_DEFINITIONS.items() if definition.is_default
)


def combined(own: tuple[RuleSettings, ...], *, with_defaults: bool) -> tuple[RuleSettings, ...]:
    """Return the rules in force: a configured one replaces the default of its name.

    A configured rule that is not enabled removes itself and the default that it replaces.
    """
    rules = {rule.name: rule for rule in DEFAULT_RULES} if with_defaults else {}
    rules.update((rule.name, rule) for rule in own)
    return tuple(rule for rule in rules.values() if rule.is_enabled)
