"""The past of pipelines, as the grid shows it: their newest runs, and starts that were missed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.bus.contract import StoredRuns
from monitor.model.alerts import Alert, AlertState, PastQuery, PipelineOfKind
from monitor.model.public_shapes import filled
from monitor.model.runs import RunKind, RunState, Status
from monitor.web.views.overview.overview import Overview
from monitor.web.views.overview.pipeline_state import (
    PipelineKey,
    PipelineRow,
    RunCell,
    key_of_alert,
)
from monitor.web.views.overview.recent_overview import computed
from monitor.web.views.view import ViewSources

LONGEST_STRIP = 60  # runs
ITEMS_OF_A_STRIP = 6  # of `computed`, by what a row costs that goes over its strip
_KEPT = 1_000  # strips, some 10 kB each
WORST_FIRST = (
    *(Status.FAILED, Status.LOST, Status.CANCELED),
    *(Status.RUNNING, Status.PENDING, Status.SUCCEEDED),
)

_MOST = 10_000  # ended alerts
# The snapshot of alerting, which rows are made of, shows each ended alert for an hour.
_READ_AGAIN_SECONDS = 900.0
# An alert ends as of the start that ends it. This early it came in time, and was only seen late.
_IN_TIME = timedelta(minutes=1)


async def strips_of(
    pipelines: Iterable[PipelineOfKind], overview: Overview, *, stored: StoredRuns
) -> dict[PipelineOfKind, tuple[RunCell, ...]]:
    """Return the newest runs of each pipeline, oldest first; read once beside an overview."""
    if len(overview.strips) > _KEPT:
        overview.strips.clear()
    wanted = set(pipelines)
    strips = {key: overview.strips[key] for key in wanted & overview.strips.keys()}
    missing = wanted - strips.keys()
    if missing:
        parts = {part for key in missing for part in _read_for(key)}
        runs = await stored.pipeline_runs(parts, limit=LONGEST_STRIP)
        read = await computed(sum(map(len, runs.values())), _strips, missing, runs)
        overview.strips.update(read)
        strips |= read
    return strips


def cell_of(run: RunState) -> RunCell:
    return filled(
        RunCell,
        run,
        kind=run.key.kind,
        id=run.key.id,
        status=run.known_end or run.status,
        at=run.started_at or run.created_at,
        recipe_id=run.recipe.id if run.recipe is not None else None,
    )


def _read_for(key: PipelineOfKind) -> tuple[PipelineOfKind, ...]:
    """Return what is read for a strip: for flow runs the job groups too."""
    workspace, kind, pipeline_id = key
    parts = ((workspace, RunKind.JOB_GROUP, pipeline_id),)
    return (key, *parts) if kind is RunKind.FLOW_RUN else (key,)


def _strips(
    pipelines: Iterable[PipelineOfKind], runs: Mapping[PipelineOfKind, Sequence[RunState]]
) -> dict[PipelineOfKind, tuple[RunCell, ...]]:
    strips = {}
    for key in pipelines:
        _, *parts = _read_for(key)
        strips[key] = _strip(
            runs.get(key, ()), [run for part in parts for run in runs.get(part, ())]
        )
    return strips


def _strip(runs: Sequence[RunState], job_groups: Sequence[RunState]) -> tuple[RunCell, ...]:
    """Return the cells, oldest first; of job groups those that belong to none of the runs."""
    cells = [cell_of(run) for run in runs]
    if job_groups:
        stored = {run.key.id for run in runs}
        oldest = _order(cells[-1]) if len(cells) == LONGEST_STRIP else None
        groups: defaultdict[str, list[RunCell]] = defaultdict(list)
        for run in job_groups:
            if run.parents.flow_run not in stored:
                groups[run.parents.flow_run or f"alone {run.key.id}"].append(cell_of(run))
        whole = map(_whole, groups.values())
        cells += [cell for cell in whole if oldest is None or _order(cell) > oldest]
        cells.sort(key=_order, reverse=True)
    return tuple(reversed(cells[:LONGEST_STRIP]))


def _whole(cells: Sequence[RunCell]) -> RunCell:
    """Return the cell of the flow run that these job groups are."""
    worst = min(cells, key=lambda cell: WORST_FIRST.index(cell.status))
    if len(cells) == 1:
        return worst
    begin = min((cell.at for cell in cells if cell.at is not None), default=None)
    ends = [cell.finished_at for cell in cells]
    end = max(at for at in ends if at is not None) if None not in ends else None
    return replace(
        worst,
        at=begin,
        finished_at=end,
        duration_seconds=None if begin is None or end is None else (end - begin).total_seconds(),
        recipe_id=None,
    )


def _order(cell: RunCell) -> float:
    at = cell.at or cell.finished_at
    return at.timestamp() if at is not None else 0.0


def usual_seconds(cells: Iterable[RunCell]) -> float | None:
    """Return the median duration of the successes, None without any."""
    durations = [
        cell.duration_seconds
        for cell in cells
        if cell.status is Status.SUCCEEDED and cell.duration_seconds is not None
    ]
    return median(durations) if durations else None


def success_ratio(cells: Iterable[RunCell]) -> float | None:
    """Return the share of successes among the runs that have ended; canceled ones do not count."""
    ends = [
        cell.status
        for cell in cells
        if cell.status.is_terminal and cell.status is not Status.CANCELED
    ]
    return ends.count(Status.SUCCEEDED) / len(ends) if ends else None


class MissedStart(Struct, frozen=True, kw_only=True):
    """An expected start that no run came for; ``count`` of them where more have followed."""

    at: datetime
    count: int
    until: datetime | None  # when its alert ended; None: it is open


class MissedStarts:
    """Keeps what ended alerts tell, and reads it again now and then."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources
        self._lock = asyncio.Lock()
        self._read_at: float | None = None
        self._ended: Mapping[PipelineKey | None, Sequence[Alert]] = {}

    async def get(self, rows: Iterable[PipelineRow]) -> dict[PipelineKey, tuple[MissedStart, ...]]:
        """Return the missed starts of each pipeline, oldest first."""
        async with self._lock:
            await self._read_again()
        return {row.key: _missed(row, self._ended.get(row.key, ())) for row in rows}

    async def _read_again(self) -> None:
        now = self._sources.clock.monotonic()
        if self._read_at is not None and now - self._read_at < _READ_AGAIN_SECONDS:
            return
        query = PastQuery(rule_kind=RuleKind.SCHEDULE_MISSED, limit=_MOST)
        past = await self._sources.alerting.past(query)
        self._read_at, self._ended = now, await computed(len(past), _by_pipeline, past)


def _by_pipeline(past: Iterable[Alert]) -> dict[PipelineKey | None, list[Alert]]:
    ended: defaultdict[PipelineKey | None, list[Alert]] = defaultdict(list)
    for alert in past:
        # One that ended before its grace was over was never missed.
        if alert.state is AlertState.RESOLVED:
            ended[key_of_alert(alert)].append(alert)
    return dict(ended)


def _missed(row: PipelineRow, ended: Iterable[Alert]) -> tuple[MissedStart, ...]:
    alerts = {(alert.fingerprint, alert.starts_at): alert for alert in (*ended, *row.missed_alerts)}
    missed = filter(_was_missed, alerts.values())
    return tuple(map(_missed_start, sorted(missed, key=_starts_at)))


def _missed_start(alert: Alert) -> MissedStart:
    count = alert.facts.get("missed")
    return MissedStart(
        at=alert.starts_at,
        count=int(count) if isinstance(count, float | int) else 1,
        until=alert.ends_at,
    )


def _was_missed(alert: Alert) -> bool:
    return alert.ends_at is None or alert.ends_at - alert.starts_at > _IN_TIME


def _starts_at(alert: Alert) -> datetime:
    return alert.starts_at
