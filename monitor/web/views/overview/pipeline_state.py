"""The state of one pipeline in one word, its row, and the orders of the list. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import Alert, AlertState, LearnedLimit
from monitor.model.live_state import PipelineHealth
from monitor.model.overall_health import OverallHealth
from monitor.model.runs import PipelineKind, RunKind, Status
from monitor.web.http.request_parsing import sort_text

PipelineKey = tuple[str, PipelineKind, str]  # workspace, kind, id
# What it is sorted by, then its name, cut, then its workspace, kind and id: no two are equal.
OrderKey = tuple[float, str, str, str, str]

_FAILURES = frozenset({RuleKind.RUN_FAILED, RuleKind.FAILING_REPEATEDLY, RuleKind.RUN_LOST})
_NEVER = 1e12  # after every instant


class PipelineCondition(StrEnum):
    """How a pipeline is, the worst first. Whether it runs just now is another question."""

    FAILING = "failing"  # the last run of it, or of a part of it, failed or was lost
    MISSED = "missed"  # a start that a schedule promised has not come
    WARNING = "warning"  # another alert fires: too slow, not fresh...
    UNKNOWN = "unknown"  # it cannot be seen now
    CANCELED = "canceled"  # its last run was canceled
    HEALTHY = "healthy"
    NEW = "new"  # no run of it has ended yet


_WORST_FIRST: Mapping[PipelineCondition, int] = MappingProxyType(
    {state: rank for rank, state in enumerate(PipelineCondition)}
)


class PipelineSort(StrEnum):
    """What the list is sorted by; the worst, newest, most, longest and nearest first."""

    STATE = "state"
    NAME = "name"
    LAST_END = "last_end"
    FAILURES = "failures"
    DURATION = "duration"
    NEXT_START = "next_start"


class PipelineShape(Struct, frozen=True, kw_only=True):
    """What list and page show of a pipeline. Instants are the workspace's."""

    workspace: str
    kind: PipelineKind
    pipeline: str  # its name
    folder: str | None
    owner: str | None
    expected_start_at: datetime | None  # of a schedule that the token can see
    missed_starts: int  # ever


class PipelineNow(PipelineShape, frozen=True, kw_only=True):
    """A pipeline as it is now."""

    pipeline_id: str
    state: PipelineCondition
    unseen: str | None  # why its present state cannot be seen
    run_kind: RunKind  # of the runs that are its runs
    active: int  # its runs that have not ended, without the parts of others of them


class PipelineRow(PipelineNow, frozen=True, kw_only=True, gc=False):
    """What the overview knows of a pipeline, beside what it shows of it."""

    has_alert: bool  # one fires
    missed_alerts: tuple[Alert, ...]  # about starts that never came, those of the last hour too
    limit: LearnedLimit | None  # of its runs
    health: OverallHealth
    parts: tuple[PipelineHealth, ...]  # job groups by recipe

    @property
    def key(self) -> PipelineKey:
        return self.workspace, self.kind, self.pipeline_id


class RunCell(Struct, frozen=True, kw_only=True, gc=False):
    """One run of a strip. Instants are the workspace's.

    A flow run that ended before it was followed may not be stored; its job groups make its cell,
    which has the kind and id of the worst of them.
    """

    kind: RunKind
    id: str
    status: Status
    at: datetime | None  # its start; its creation where no start is known
    finished_at: datetime | None
    duration_seconds: float | None
    recipe_id: str | None
    historical: bool  # it ended before the workspace was followed


def state_of(
    health: OverallHealth, firing: Iterable[Alert], *, is_blind: bool
) -> PipelineCondition:
    """Return the worst that holds. What was healthy when it was last seen is unknown while blind.

    A failure stands: the success that would end it has not been observed.
    """
    rules = {alert.rule for alert in firing}
    if rules & _FAILURES or health.is_failing:
        return PipelineCondition.FAILING
    if RuleKind.SCHEDULE_MISSED in rules:
        return PipelineCondition.MISSED
    if rules:
        return PipelineCondition.WARNING
    if is_blind:
        return PipelineCondition.UNKNOWN
    if health.last is None:
        return PipelineCondition.NEW
    is_canceled = health.last.status is Status.CANCELED
    return PipelineCondition.CANCELED if is_canceled else PipelineCondition.HEALTHY


def key_of_alert(alert: Alert) -> PipelineKey | None:
    """Return the pipeline that an alert is about, None where it is about none."""
    pipeline = alert.pipeline
    return None if pipeline is None else (alert.workspace, pipeline.kind, pipeline.id)


def is_firing(alert: Alert) -> bool:
    return alert.state is AlertState.FIRING


def order_key(sort: PipelineSort, row: PipelineRow) -> OrderKey:
    """Return the sort key of a row."""
    return (_value(sort, row), sort_text(row.pipeline), *row.key)


def _value(sort: PipelineSort, row: PipelineRow) -> float:
    last = row.health.last
    match sort:
        case PipelineSort.STATE:
            # Of equal states those first that run now.
            return 2.0 * _WORST_FIRST[row.state] + (row.active == 0)
        case PipelineSort.LAST_END:
            return -_seconds(last.at if last is not None else None, 0.0)
        case PipelineSort.FAILURES:
            return -float(row.health.consecutive_failures)
        case PipelineSort.DURATION:
            return -(last.duration_seconds or 0.0) if last is not None else 0.0
        case PipelineSort.NEXT_START:
            return _seconds(row.expected_start_at, _NEVER)
    return 0.0


def _seconds(at: datetime | None, otherwise: float) -> float:
    return otherwise if at is None else at.timestamp()
