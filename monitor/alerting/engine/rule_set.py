"""The rules in force, as every part of the engine uses them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from monitor.alerting.alerts.lifecycle import LifecycleLimits
from monitor.alerting.rules.compiled import Compiled, Rule
from monitor.alerting.settings import AlertingSettings


class RuleSet(Struct, frozen=True, kw_only=True):
    """Replaced as a whole by a reload."""

    settings: AlertingSettings
    compiled: Compiled
    by_name: Mapping[str, Rule]
    limits: LifecycleLimits

    @classmethod
    def of(cls, settings: AlertingSettings) -> RuleSet:
        compiled = Compiled(settings.rules)
        return cls(
            settings=settings,
            compiled=compiled,
            by_name={rule.name: rule for rule in compiled.rules},
            limits=LifecycleLimits(
                flap_count=settings.flap_count,
                flap_seconds=settings.flap_seconds,
                resolved_kept_seconds=settings.resolved_kept_seconds,
            ),
        )
