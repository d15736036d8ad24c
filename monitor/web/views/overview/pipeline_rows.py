"""One pipeline as it is now, and the orders in which pipelines are listed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from monitor.model.alerts import Alert
from monitor.model.live_state import NamedPipeline, PipelineHealth
from monitor.model.overall_health import OverallHealth
from monitor.model.runs import PipelineKind, RunKind
from monitor.web.http.cursors import sort_text
from monitor.web.views.overview.pipeline_states import WORST_FIRST, PipelineCondition

PipelineKey = tuple[str, PipelineKind, str]  # workspace, kind, id
# What it is sorted by, then its name, cut, then its workspace, kind and id: no two are equal.
OrderKey = tuple[float, str, str, str, str]

RUN_KINDS: Mapping[PipelineKind, tuple[RunKind, ...]] = MappingProxyType(
    {
        PipelineKind.FLOW: (RunKind.FLOW_RUN, RunKind.JOB_GROUP),
        PipelineKind.PLAN: (RunKind.PLAN_RUN,),
    }
)
_NEVER = 1e12  # behind every instant


class PipelineSort(StrEnum):
    """What the list is sorted by; the worst, newest, most, longest and nearest first."""

    STATE = "state"
    NAME = "name"
    LAST_END = "last_end"
    FAILURES = "failures"
    DURATION = "duration"
    NEXT_START = "next_start"


class PipelineRow(Struct, frozen=True, kw_only=True, gc=False):
    """A pipeline as it is now."""

    key: PipelineKey
    label: str
    folder: str | None
    owner: str | None
    state: PipelineCondition
    run_kind: RunKind  # of the runs that are its runs
    active: int  # its runs that have not ended, without the parts of others of them
    has_alert: bool  # one fires
    next_start: datetime | None  # workspace time
    health: OverallHealth
    parts: tuple[PipelineHealth, ...]  # job groups by recipe


def key_of_name(named: NamedPipeline) -> PipelineKey:
    """Return the pipeline that a name belongs to."""
    return named.workspace, named.kind, named.id


def key_of_health(health: PipelineHealth) -> PipelineKey:
    """Return the pipeline that a health is of."""
    return health.workspace, health.pipeline.kind, health.pipeline.id


def key_of_alert(alert: Alert) -> PipelineKey | None:
    """Return the pipeline that an alert is about, None where it is about none."""
    pipeline = alert.pipeline
    return None if pipeline is None else (alert.workspace, pipeline.kind, pipeline.id)


def order_key(sort: PipelineSort, row: PipelineRow) -> OrderKey:
    """Return the sort key of a row."""
    return (_value(sort, row), sort_text(row.label), *row.key)


def pipeline_of(key: OrderKey) -> PipelineKey:
    """Return the pipeline that a sort key belongs to."""
    return key[2], PipelineKind(key[3]), key[4]


def _value(sort: PipelineSort, row: PipelineRow) -> float:
    last = row.health.last
    match sort:
        case PipelineSort.STATE:
            # Of equal states those first that run now.
            return 2.0 * WORST_FIRST[row.state] + (row.active == 0)
        case PipelineSort.LAST_END:
            return -_seconds(last.at if last is not None else None, 0.0)
        case PipelineSort.FAILURES:
            return -float(row.health.consecutive_failures)
        case PipelineSort.DURATION:
            return -(last.duration_seconds or 0.0) if last is not None else 0.0
        case PipelineSort.NEXT_START:
            return _seconds(row.next_start, _NEVER)
    return 0.0


def _seconds(at: datetime | None, otherwise: float) -> float:
    return otherwise if at is None else at.timestamp()
