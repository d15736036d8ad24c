"""The store of a replay: what the engine reads of a store, in memory and bounded."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from msgspec.structs import replace

from monitor.alerting.alerting_store import Store
from monitor.bus.contract import Batch, Recorded, Start, Step, StoreStatus
from monitor.model.alerts import PipelineOfKind
from monitor.model.events import AlertEvent, Event, EventType, RunEvent
from monitor.model.runs import RunKey, RunKind, RunState

# A failure may wait for its root run, for minutes at most.
_FAILURES = frozenset({EventType.RUN_FAILED, EventType.RUN_CANCELED, EventType.RUN_LOST})
_FAILURES_KEPT = timedelta(hours=1)
# A run that ended so long before all active ones is part of none that is still to come.
_RUNS_KEPT = timedelta(days=1)
_RUNS_BOUND = 200_000
_ROOM = 10_000  # runs to add before the next attempt to forget some


class ReplayStore(Store, Protocol):
    """A store that recorded events are written to again."""

    async def record(self, events: Sequence[Event]) -> None:
        """Record events, with the runs as they were then."""

    async def link(self, plan_run: RunKey, parts: Collection[RunKey]) -> None:
        """Set the plan run of its known parts that have none yet."""


class MemoryStore:
    """A `ReplayStore` in memory; the engine's alert events go to ``on_alert`` and no further.

    Steps are not kept: no replay is resumed.
    """

    def __init__(self, on_alert: Callable[[AlertEvent], None]) -> None:
        self._on_alert = on_alert
        self._position = 0
        self._unread: deque[Recorded] = deque()
        self._runs: dict[RunKey, RunState] = {}
        self._children: defaultdict[RunKey, dict[RunKey, None]] = defaultdict(dict)
        self._failures: dict[str, Recorded] = {}
        self._room = _ROOM

    def __len__(self) -> int:
        """Return how many runs are held."""
        return len(self._runs)

    async def record(self, events: Sequence[Event]) -> None:
        for event in events:
            self._position += 1
            recorded = Recorded(self._position, event)
            self._unread.append(recorded)
            if not isinstance(event, RunEvent):
                continue
            self._keep(event.run)
            if event.type in _FAILURES:
                self._failures[event.id] = recorded
        if events:
            self._forget_failures(events[-1].recorded_at - _FAILURES_KEPT)
            self._forget_runs()

    async def link(self, plan_run: RunKey, parts: Collection[RunKey]) -> None:
        for run in (self._runs.get(key) for key in parts):
            if run is not None and run.parents.plan_run is None:
                self._keep(replace(run, parents=replace(run.parents, plan_run=plan_run.id)))

    async def subscribe(self, consumer: str, *, start: Start) -> int:  # noqa: ARG002 - a Store
        return self._position

    async def consumer_state(self, consumer: str) -> dict[str, bytes]:  # noqa: ARG002 - a Store
        return {}

    async def read(self, consumer: str, *, after: int, limit: int) -> Batch:  # noqa: ARG002
        while self._unread and self._unread[0].position <= after:
            self._unread.popleft()
        count = min(limit, len(self._unread))
        return Batch(events=tuple(self._unread[index] for index in range(count)))

    async def wait(self, after: int, *, timeout_seconds: float) -> bool:  # noqa: ARG002 - a Store
        return self._position > after

    async def advance(self, step: Step, *, timeout_seconds: float) -> None:  # noqa: ARG002
        for event in step.events:
            if isinstance(event, AlertEvent):
                self._on_alert(event)

    async def status(self) -> StoreStatus:
        return StoreStatus(
            newest_position=self._position,
            oldest_position=self._position + 1,
            consumers=(),
            inbox={},
            store_bytes=0,
        )

    async def runs(self, keys: Collection[RunKey]) -> dict[RunKey, RunState]:
        return {key: self._runs[key] for key in keys if key in self._runs}

    async def pipeline_runs(
        self, pipelines: Collection[PipelineOfKind], *, limit: int
    ) -> dict[PipelineOfKind, list[RunState]]:
        found: dict[PipelineOfKind, list[RunState]] = {pipeline: [] for pipeline in pipelines}
        newest = sorted(self._runs.values(), key=_began_at)
        newest.reverse()  # as a whole, so of two that began at once the later one comes first
        for run in newest:
            of = (
                None if run.pipeline is None else (run.key.workspace, run.key.kind, run.pipeline.id)
            )
            if of in found and len(found[of]) < limit:
                found[of].append(run)
        return found

    async def children(self, key: RunKey) -> list[RunState]:
        return [self._runs[child] for child in self._children.get(key, ())]

    async def events_by_id(self, ids: Collection[str]) -> dict[str, Recorded]:
        return {
            event_id: self._failures[event_id] for event_id in ids if event_id in self._failures
        }

    def _keep(self, run: RunState) -> None:
        before = self._runs.get(run.key)
        if before is not None and before.parents != run.parents:
            if run.parents.plan_run is None:  # what an event does not carry was known all the same
                plan_run = before.parents.plan_run
                run = replace(run, parents=replace(run.parents, plan_run=plan_run))
            self._unlink(before)
        self._runs[run.key] = run
        for parent in _parents(run):
            self._children[parent][run.key] = None

    def _unlink(self, run: RunState) -> None:
        for parent in _parents(run):
            children = self._children[parent]
            children.pop(run.key, None)
            if not children:
                del self._children[parent]

    def _forget_failures(self, before: datetime) -> None:
        while self._failures:
            first = next(iter(self._failures))
            if self._failures[first].event.recorded_at >= before:
                return
            del self._failures[first]

    def _forget_runs(self) -> None:
        """Forget the runs that can be part of none to come, and the oldest beyond the bound."""
        if len(self._runs) <= self._room:
            return
        active = [_began_at(run) for run in self._runs.values() if not run.status.is_terminal]
        newest = max(run.confirmed_at for run in self._runs.values())
        before = min([newest, *active]) - _RUNS_KEPT
        surplus = len(self._runs) - _RUNS_BOUND
        runs = sorted(self._runs.values(), key=lambda run: run.confirmed_at)
        for index, run in enumerate(runs):
            if index < surplus or (run.status.is_terminal and run.confirmed_at < before):
                self._unlink(run)
                del self._runs[run.key]
        self._room = len(self._runs) + _ROOM


def _parents(run: RunState) -> list[RunKey]:
    parents = (
        (RunKind.FLOW_RUN, run.parents.flow_run),
        (RunKind.PLAN_RUN, run.parents.plan_run),
    )
    return [RunKey(run.key.workspace, kind, id_) for kind, id_ in parents if id_ is not None]


def _began_at(run: RunState) -> datetime:
    return run.created_at or run.started_at or run.confirmed_at
