"""The state of a pipeline in one word. Pure: no clock, no store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from types import MappingProxyType

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import Alert, AlertState
from monitor.model.overall_health import OverallHealth
from monitor.model.runs import Status


class PipelineCondition(StrEnum):
    """How a pipeline is, the worst first. Whether it runs just now is another question."""

    FAILING = "failing"  # the last run of it, or of a part of it, failed or was lost
    MISSED = "missed"  # a start that a schedule promised has not come
    WARNING = "warning"  # another alert fires: too slow, not fresh...
    UNKNOWN = "unknown"  # nobody can see it now
    CANCELED = "canceled"  # its last run was canceled
    HEALTHY = "healthy"
    NEW = "new"  # no run of it has ended yet


WORST_FIRST: Mapping[PipelineCondition, int] = MappingProxyType(
    {state: rank for rank, state in enumerate(PipelineCondition)}
)
_FAILURES = frozenset({RuleKind.RUN_FAILED, RuleKind.FAILING_REPEATEDLY, RuleKind.RUN_LOST})


def state_of(
    health: OverallHealth, alerts: Collection[Alert], *, is_blind: bool
) -> PipelineCondition:
    """Return the worst that holds. What was healthy when it was last seen is unknown while blind.

    A failure stands: nobody has seen the success that would end it.
    """
    firing = {alert.rule for alert in alerts if alert.state is AlertState.FIRING}
    if firing & _FAILURES or health.is_failing:
        return PipelineCondition.FAILING
    if RuleKind.SCHEDULE_MISSED in firing:
        return PipelineCondition.MISSED
    if firing:
        return PipelineCondition.WARNING
    if is_blind:
        return PipelineCondition.UNKNOWN
    if health.last is None:
        return PipelineCondition.NEW
    is_canceled = health.last.status is Status.CANCELED
    return PipelineCondition.CANCELED if is_canceled else PipelineCondition.HEALTHY
