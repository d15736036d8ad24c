"""What can be set about alerting as a whole."""

from __future__ import annotations

from msgspec import Struct

from monitor.alerting.rules.defaults import DEFAULT_RULES
from monitor.alerting.settings.rules import RuleSettings
from monitor.alerting.settings.silences import SilenceSettings


class AlertingSettings(Struct, frozen=True, kw_only=True):
    """The rules at work, the silences of the configuration, and how episodes are handled."""

    rules: tuple[RuleSettings, ...] = DEFAULT_RULES
    silences: tuple[SilenceSettings, ...] = ()
    with_defaults: bool = True  # whether ``rules`` began with the default ones
    evaluation_interval_seconds: float = 2.0  # between two looks at the present
    flap_count: int = 3  # episodes of one alert within the time below make one notice
    flap_seconds: float = 3_600.0
    resolved_kept_seconds: float = 3_600.0  # how long what is over stays in view
    # How long the failure of a plan may wait for the child that failed before it.
    parents_wait_seconds: float = 15.0
