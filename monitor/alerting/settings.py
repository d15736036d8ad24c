"""What the configuration reads and writes about alerting, and the rule kinds it is checked by."""

from __future__ import annotations

from msgspec import Struct

from monitor.alerting.alerts.label_names import SHOWN_LABELS
from monitor.alerting.alerts.silences import (
    Labels,
    SilenceSettings,
    labels_to_match,
    silence_problems,
)
from monitor.alerting.rules.definition import AnyRuleDefinition, Quantity
from monitor.alerting.rules.globs import EXCLUDES, parse_globs
from monitor.alerting.rules.muting import parse_mute_window, zone_names
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import DEFAULT_RULES, RULE_DEFINITIONS, combined, default_rule
from monitor.alerting.rules.templates import parse_template

__all__ = [
    "DEFAULT_RULES",
    "EXCLUDES",
    "RULE_DEFINITIONS",
    "SHOWN_LABELS",
    "AlertingSettings",
    "AnyRuleDefinition",
    "Labels",
    "Match",
    "Quantity",
    "RuleKind",
    "RuleSettings",
    "SilenceSettings",
    "combined",
    "default_rule",
    "labels_to_match",
    "parse_globs",
    "parse_mute_window",
    "parse_template",
    "silence_problems",
    "zone_names",
]


class AlertingSettings(Struct, frozen=True, kw_only=True):
    """The rules in force, the silences of the configuration, and how alerts are handled."""

    rules: tuple[RuleSettings, ...] = DEFAULT_RULES
    silences: tuple[SilenceSettings, ...] = ()
    with_defaults: bool = True  # whether ``rules`` began with the default ones
    evaluation_interval_seconds: float = 2.0  # of time-based rules
    flap_count: int = 3  # so many alerts of one fingerprint within the time below flap
    flap_seconds: float = 3_600.0
    resolved_kept_seconds: float = 3_600.0  # how long a resolved alert stays visible
    # How long the failure of a plan may wait for the child that failed before it.
    parents_wait_seconds: float = 15.0
