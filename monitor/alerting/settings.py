"""The settings of alerting, and the rule kinds against which they are validated."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from monitor.alerting.alerts.silences import (
    SHOWN_LABELS,
    Labels,
    SilenceSettings,
    labels_to_match,
    silence_problems,
)
from monitor.alerting.rules.contract import AnyRuleDefinition, Quantity
from monitor.alerting.rules.deadline_settings import parse_days, parse_time
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import (
    DEFAULT_RULES,
    RULE_DEFINITIONS,
    RUNBOOKS,
    combined,
    default_rule,
    with_runbooks_at,
)
from monitor.model.globs import fits_some, parse_globs
from monitor.model.settings import Setting

__all__ = [
    "DEFAULT_RULES",
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
    "fits_some",
    "labels_to_match",
    "parse_days",
    "parse_globs",
    "parse_time",
    "silence_problems",
    "with_runbooks_at",
]


def _location(text: str) -> str | None:
    if text.isprintable() and text and not set(text) & set(" #{}"):
        return None
    return 'must be a URL or path without spaces, "#" and braces'


class AlertingSettings(Struct, frozen=True, kw_only=True):
    """The life cycle of alerts, for every rule."""

    rules: tuple[RuleSettings, ...] = DEFAULT_RULES
    disabled: tuple[RuleSettings, ...] = ()  # by ``enabled = false``; only explanations name them
    silences: tuple[SilenceSettings, ...] = ()
    with_defaults: Annotated[
        bool, Setting("Use every rule but canceled and those of deadlines without [[alerts]].")
    ] = field(default=True, name="defaults")
    runbooks: Annotated[
        str,
        Setting(
            "Where runbooks.md is: alerts carry it with #RULE as runbook_url. The default stands "
            "for the daemon's own page, http://HOST:PORT/runbooks by [server]. Set the URL of your "
            'copy, or, behind a proxy, such as "https://monitor.example.com/runbooks".',
            check=_location,
        ),
    ] = RUNBOOKS
    warn_without_output: Annotated[
        bool,
        Setting("Warn while no output takes alerts; false where Prometheus' rules notify people."),
    ] = True
    evaluation_interval_seconds: Annotated[
        float,
        Meta(ge=0.1, le=60),
        Setting("Evaluation interval of time-based rules; event-driven rules run immediately."),
    ] = 2.0
    flap_count: Annotated[
        int,
        Meta(ge=2, le=100),
        Setting("An alert that fires so often within flap_seconds is reported once, as flapping."),
    ] = 3
    flap_seconds: Annotated[
        float,
        Meta(ge=60, le=7 * 86_400),
        Setting("The time for flap_count; flapping ends after half of it without a change."),
    ] = 3_600.0
    longest_silence_seconds: Annotated[
        float,
        Meta(ge=3_600, le=3_650 * 86_400),
        Setting("The longest silence that people can make; those of [[silences]] may be longer."),
    ] = 30 * 86_400.0
    resolved_kept_seconds: Annotated[
        float,
        Meta(ge=60, le=7 * 86_400),
        Setting("How long a resolved alert stays on the page and in its retained topic."),
    ] = 3_600.0
    # How long the failure of a plan may wait for the child that failed before it.
    parents_wait_seconds: Annotated[
        float,
        Meta(ge=0, le=300),
        Setting(
            "How long links between a plan run and its parts are looked for, and how long "
            "an alert waits for another one that is likely to be about the same failure."
        ),
    ] = 15.0

    def with_runbooks_at(self, location: str) -> AlertingSettings:
        """Return the settings with the runbooks there, where they name no place of their own."""
        return replace(self, rules=with_runbooks_at(self.rules, location))
