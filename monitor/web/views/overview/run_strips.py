"""The newest runs of pipelines, as the grid shows them; kept until an event touches them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from monitor.bus.contract import StoredRuns
from monitor.model.alerts import PipelineOfKind
from monitor.model.clock import Clock
from monitor.model.events import Event, RunEvent
from monitor.model.runs import RunKind, RunState, Status
from monitor.model.slices import in_slices

LONGEST_STRIP = 60  # runs
_KEPT = 1_000  # strips, some 10 kB each
_FRESH_SECONDS = 60.0  # old runs are read back without an event

_STRIPS_AT_ONCE = 5
# The strips in which runs of a kind stand.
_STRIPS_WITH = {
    RunKind.FLOW_RUN: (RunKind.FLOW_RUN,),
    RunKind.JOB_GROUP: (RunKind.JOB_GROUP, RunKind.FLOW_RUN),
    RunKind.PLAN_RUN: (RunKind.PLAN_RUN,),
}
_WORST_FIRST = (
    *(Status.FAILED, Status.LOST, Status.CANCELED),
    *(Status.RUNNING, Status.PENDING, Status.SUCCEEDED),
)

_Kept = tuple[float, tuple["RunCell", ...]]  # when it was read, and what


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


class RunStrips:
    """Reads strips, the newest run last, and keeps those that were asked for last."""

    def __init__(self, stored: StoredRuns, *, clock: Clock) -> None:
        self._stored = stored
        self._clock = clock
        self._strips: OrderedDict[PipelineOfKind, _Kept] = OrderedDict()
        self._readers: list[set[PipelineOfKind]] = []  # what changes while each of them reads
        self._began = 0  # how often events may have been missed

    def on_events(self, events: Sequence[Event]) -> None:
        """Forget the strips of the pipelines of which these are runs."""
        for event in events:
            if isinstance(event, RunEvent) and event.run.pipeline is not None:
                for kind in _STRIPS_WITH[event.run.key.kind]:
                    key = event.run.key.workspace, kind, event.run.pipeline.id
                    self._strips.pop(key, None)
                    for changed in self._readers:
                        changed.add(key)

    def forget(self) -> None:
        """Forget all strips, because events may have been missed."""
        self._strips.clear()
        self._began += 1

    async def get(
        self, pipelines: Iterable[PipelineOfKind]
    ) -> dict[PipelineOfKind, tuple[RunCell, ...]]:
        """Return the newest runs of each pipeline, oldest first."""
        now = self._clock.monotonic()
        found = {key: self._fresh(key, now) for key in pipelines}
        missing = [key for key, strip in found.items() if strip is None]
        read = await self._read(missing, now) if missing else {}
        return {key: read.get(key, ()) if strip is None else strip for key, strip in found.items()}

    def _fresh(self, key: PipelineOfKind, now: float) -> tuple[RunCell, ...] | None:
        kept = self._strips.get(key)
        if kept is None or now - kept[0] > _FRESH_SECONDS:
            return None
        self._strips.move_to_end(key)
        return kept[1]

    async def _read(
        self, pipelines: Sequence[PipelineOfKind], now: float
    ) -> dict[PipelineOfKind, tuple[RunCell, ...]]:
        changed: set[PipelineOfKind] = set()
        began = self._began
        self._readers.append(changed)
        try:
            wanted = {part for key in pipelines for part in _read_for(key)}
            runs = await self._stored.pipeline_runs(wanted, limit=LONGEST_STRIP)
        finally:
            self._readers.remove(changed)
        strips = {
            key: _strip(runs.get(key, ()), [run for part in parts for run in runs.get(part, ())])
            async for key, (_, *parts) in in_slices(
                ((key, _read_for(key)) for key in pipelines), size=_STRIPS_AT_ONCE
            )
        }
        for key, strip in strips.items():
            if key not in changed and began == self._began:
                self._strips[key] = now, strip
        while len(self._strips) > _KEPT:
            self._strips.popitem(last=False)
        return strips


def cell_of(run: RunState) -> RunCell:
    return RunCell(
        kind=run.key.kind,
        id=run.key.id,
        status=run.known_end or run.status,
        at=_begin(run),
        finished_at=run.finished_at,
        duration_seconds=run.duration_seconds,
        recipe_id=run.recipe.id if run.recipe is not None else None,
        historical=run.historical,
    )


def _read_for(key: PipelineOfKind) -> tuple[PipelineOfKind, ...]:
    """Return what is read for a strip: for flow runs the job groups too."""
    workspace, kind, pipeline_id = key
    parts = ((workspace, RunKind.JOB_GROUP, pipeline_id),)
    return (key, *parts) if kind is RunKind.FLOW_RUN else (key,)


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
    worst = min(cells, key=lambda cell: _WORST_FIRST.index(cell.status))
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


def _begin(run: RunState) -> datetime | None:
    return run.started_at or run.created_at


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
