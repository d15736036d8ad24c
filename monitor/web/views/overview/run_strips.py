"""The newest runs of pipelines, as the grid shows them; kept until an event touches them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime
from statistics import median

from msgspec import Struct

from monitor.bus.contract import EventBus
from monitor.model.alerts import PipelineOfKind
from monitor.model.clock import Clock
from monitor.model.events import Event, RunEvent
from monitor.model.runs import RunState, Status

LONGEST_STRIP = 60  # runs
_KEPT = 1_000  # strips, some 10 kB each
_FRESH_SECONDS = 60.0  # old runs are read back without an event

_Kept = tuple[float, tuple["RunCell", ...]]  # when it was read, and what


class RunCell(Struct, frozen=True, kw_only=True, gc=False):
    """One run of a strip. Instants are the workspace's."""

    id: str
    status: Status
    at: datetime | None  # its start; its creation where no start is known
    finished_at: datetime | None
    duration_seconds: float | None
    recipe_id: str | None
    historical: bool  # it ended before the workspace was followed


class RunStrips:
    """Reads strips, the newest run last, and keeps those that were asked for last."""

    def __init__(self, bus: EventBus, *, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._strips: OrderedDict[PipelineOfKind, _Kept] = OrderedDict()
        self._readers: list[set[PipelineOfKind]] = []  # what changes while each of them reads

    def on_events(self, events: Sequence[Event]) -> None:
        """Forget the strips of the pipelines of which these are runs."""
        for event in events:
            if isinstance(event, RunEvent) and event.run.pipeline is not None:
                key = event.run.key.workspace, event.run.key.kind, event.run.pipeline.id
                self._strips.pop(key, None)
                for changed in self._readers:
                    changed.add(key)

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
        self._readers.append(changed)
        try:
            runs = await self._bus.pipeline_runs(pipelines, limit=LONGEST_STRIP)
        finally:
            self._readers.remove(changed)
        strips = {key: tuple(map(cell_of, reversed(found))) for key, found in runs.items()}
        for key, strip in strips.items():
            if key not in changed:
                self._strips[key] = now, strip
        while len(self._strips) > _KEPT:
            self._strips.popitem(last=False)
        return strips


def cell_of(run: RunState) -> RunCell:
    return RunCell(
        id=run.key.id,
        status=run.known_end or run.status,
        at=run.started_at or run.created_at,
        finished_at=run.finished_at,
        duration_seconds=run.duration_seconds,
        recipe_id=run.recipe.id if run.recipe is not None else None,
        historical=run.historical,
    )


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
