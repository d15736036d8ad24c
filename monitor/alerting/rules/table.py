"""Every condition there is, by the rule that it judges."""

from __future__ import annotations

from types import MappingProxyType

from monitor.alerting.rules import (
    active_runs,
    daemon,
    ended_runs,
    freshness,
    quality,
    schedules,
    workspaces,
)

ALL = (
    *ended_runs.RULE_DEFINITIONS,
    *active_runs.RULE_DEFINITIONS,
    *schedules.RULE_DEFINITIONS,
    *freshness.RULE_DEFINITIONS,
    *quality.RULE_DEFINITIONS,
    *workspaces.RULE_DEFINITIONS,
    *daemon.RULE_DEFINITIONS,
)

RULE_DEFINITIONS = MappingProxyType({definition.rule: definition for definition in ALL})
