"""A past that happens once more: what the engine asks of a store, held in memory and in bounds."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from monitor.alerting.store import Store
from monitor.bus.contract import Batch, Recorded, Start, Step, StoreStatus
from monitor.model.events import AlertEvent, Event, EventType, RunEvent
from monitor.model.runs import RunKey, RunKind, RunState

Tell = Callable[[AlertEvent], None]

# A bad end may wait for what it is a part of, for minutes at most.
_BAD_ENDS = frozenset({EventType.RUN_FAILED, EventType.RUN_CANCELED})
_BAD_ENDS_KEPT = timedelta(hours=1)
# What ended so long before everything that is active cannot be a part of anything that is to come.
_RUNS_KEPT = timedelta(days=1)
_RUNS_BOUND = 200_000
_ROOM = 10_000  # runs, before the next look for those that may go


class RecordedStore(Store, Protocol):
    """A store that somebody lets the recorded events happen in."""

    async def happen(self, events: Sequence[Event]) -> None:
        """Let events be recorded, with the runs as they were then."""


class RecordedPast:
    """A `RecordedStore` in memory; the engine's events go to ``tell`` and no further.

    Steps are not kept: nobody goes on from them.
    """

    def __init__(self, emit: Tell) -> None:
        self._tell = emit
        self._position = 0
        self._unread: deque[Recorded] = deque()
        self._runs: dict[RunKey, RunState] = {}
        self._inside: defaultdict[RunKey, dict[RunKey, None]] = defaultdict(dict)
        self._bad_ends: dict[str, Recorded] = {}
        self._room = _ROOM

    def __len__(self) -> int:
        """Return how many runs are held."""
        return len(self._runs)

    async def happen(self, events: Sequence[Event]) -> None:
        """Let events be recorded, with the runs as they were then."""
        for event in events:
            self._position += 1
            recorded = Recorded(self._position, event)
            self._unread.append(recorded)
            if not isinstance(event, RunEvent):
                continue
            self._keep(event.run)
            if event.type in _BAD_ENDS:
                self._bad_ends[event.id] = recorded
        if events:
            self._forget_bad_ends(events[-1].recorded_at - _BAD_ENDS_KEPT)
            self._forget_runs()

    async def subscribe(self, consumer: str, *, start: Start) -> int:  # noqa: ARG002 - a Store
        return self._position

    async def consumer_state(self, consumer: str) -> dict[str, bytes]:  # noqa: ARG002 - a Store
        return {}

    async def read(self, consumer: str, *, after: int, limit: int) -> Batch:  # noqa: ARG002
        while self._unread and self._unread[0].position <= after:
            self._unread.popleft()
        count = min(limit, len(self._unread))
        return Batch(events=tuple(self._unread[place] for place in range(count)))

    async def wait(self, after: int, *, timeout_seconds: float) -> bool:  # noqa: ARG002 - a Store
        return self._position > after

    async def advance(self, step: Step, *, timeout_seconds: float) -> None:  # noqa: ARG002
        for event in step.events:
            if isinstance(event, AlertEvent):
                self._tell(event)

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

    async def children(self, key: RunKey) -> list[RunState]:
        return [self._runs[item] for item in self._inside.get(key, ())]

    async def events_by_id(self, ids: Collection[str]) -> dict[str, Recorded]:
        return {id_: self._bad_ends[id_] for id_ in ids if id_ in self._bad_ends}

    def _keep(self, run: RunState) -> None:
        before = self._runs.get(run.key)
        if before is not None and before.parents != run.parents:
            self._take_out(before)
        self._runs[run.key] = run
        for parent in _parents(run):
            self._inside[parent][run.key] = None

    def _take_out(self, run: RunState) -> None:
        for parent in _parents(run):
            inside = self._inside[parent]
            inside.pop(run.key, None)
            if not inside:
                del self._inside[parent]

    def _forget_bad_ends(self, before: datetime) -> None:
        while self._bad_ends:
            first = next(iter(self._bad_ends))
            if self._bad_ends[first].event.recorded_at >= before:
                return
            del self._bad_ends[first]

    def _forget_runs(self) -> None:
        """Drop the runs that nothing to come can be a part of, and the oldest beyond the bound."""
        if len(self._runs) <= self._room:
            return
        active = [_begun_at(run) for run in self._runs.values() if not run.status.is_terminal]
        newest = max(run.confirmed_at for run in self._runs.values())
        before = min([newest, *active]) - _RUNS_KEPT
        over = [run for run in self._runs.values() if _is_over(run, before)]
        surplus = len(self._runs) - len(over) - _RUNS_BOUND
        if surplus > 0:
            rest = sorted(self._runs.values(), key=lambda run: run.confirmed_at)
            over += [run for run in rest if not _is_over(run, before)][:surplus]
        for run in over:
            self._take_out(run)
            del self._runs[run.key]
        self._room = len(self._runs) + _ROOM


def _parents(run: RunState) -> list[RunKey]:
    workspace, parents = run.key.workspace, run.parents
    found = []
    if parents.flow_run is not None:
        found.append(RunKey(workspace, RunKind.FLOW_RUN, parents.flow_run))
    if parents.plan_run is not None:
        found.append(RunKey(workspace, RunKind.PLAN_RUN, parents.plan_run))
    return found


def _begun_at(run: RunState) -> datetime:
    return run.created_at or run.started_at or run.confirmed_at


def _is_over(run: RunState, before: datetime) -> bool:
    return run.status.is_terminal and run.confirmed_at < before
