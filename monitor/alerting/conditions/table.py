"""Every condition there is, by the rule that it judges."""

from __future__ import annotations

from types import MappingProxyType

from monitor.alerting.conditions import (
    active_runs,
    daemon,
    ended_runs,
    freshness,
    quality,
    schedules,
    workspaces,
)

ALL = (
    *ended_runs.CONDITIONS,
    *active_runs.CONDITIONS,
    *schedules.CONDITIONS,
    *freshness.CONDITIONS,
    *quality.CONDITIONS,
    *workspaces.CONDITIONS,
    *daemon.CONDITIONS,
)

CONDITIONS = MappingProxyType({condition.rule: condition for condition in ALL})
