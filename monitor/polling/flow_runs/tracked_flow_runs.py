"""The flow runs that may still have to be read: what is known of each, and when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import structlog
from msgspec import Struct

from monitor.model.clock import Clock
from monitor.model.due_queue import NEVER, DueQueue
from monitor.model.errors import MonitorError
from monitor.model.live_state import UnreadableRun
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import RunKey, RunKind, RunState, Source
from monitor.model.slices import in_slices, sorted_in_slices
from monitor.model.waits import backoff_seconds
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.polling.run_observations import Observed, flow_run_observation, with_origin
from monitor.polling.settings import PollSettings
from monitor.workspace.payloads import FlowRunRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

BASE_SECONDS = 1.0
# For one whose end is known from its parts: its rights may come back after weeks.
_LONGEST_REFUSED_WAIT_SECONDS = 86_400.0
_NAMED_AT_MOST = 20
_SLICE = 500  # of up to 10,000 that are tracked, at 2 us each


class Urgency(StrEnum):
    """By which poll a flow run is read, named as that poll is."""

    NOW = "flow_runs"
    OLD = "old_flow_runs"  # of runs that ended before we followed, when there is nothing else
    CONFIRMATION = "derived_flow_runs"  # of ends that are published, when there is nothing else

    @property
    def priority(self) -> Priority:
        return Priority.ENDS if self is Urgency.NOW else Priority.INVENTORY


@dataclass(slots=True, kw_only=True)
class TrackedFlowRun:
    """What we know of a flow run whose end the workspace has not reported, besides its state."""

    id: str
    open_groups: set[str] = field(default_factory=set)
    over_at: datetime | None = None  # workspace time at which no job group was open any more
    over_since: float = NEVER  # the same, monotonic
    reads: int = 0  # in a row in which it had not ended
    failures: int = 0  # to read it, in a row
    failing_since: float = NEVER  # monotonic
    row: FlowRunRow | None = None  # read where the job groups do not show what it shows
    is_old: bool = False  # only old job groups have shown it, and it was not observed yet
    is_derived: bool = False  # its end is published, as its job groups have shown it
    is_doubted: bool = False  # a job group has moved since then, or the status is another one
    is_failing: bool = False  # the last read brought no answer

    @property
    def urgency(self) -> Urgency:
        if self.is_old:
            return Urgency.OLD
        return Urgency.CONFIRMATION if self.is_derived and not self.is_doubted else Urgency.NOW

    def seconds_to_next_read(self, settings: PollSettings, *, is_refused: bool) -> float:
        """Count a read by which it has not ended, and return the wait for the next one."""
        self.reads += 1
        cap = settings.reconcile_seconds if is_refused else settings.flow_run_wait_cap_seconds
        if is_refused and self.urgency is Urgency.CONFIRMATION:
            cap = _LONGEST_REFUSED_WAIT_SECONDS
        return backoff_seconds(self.reads, base_seconds=BASE_SECONDS, cap_seconds=cap)

    def are_over(self, at: datetime, *, since: float) -> None:
        """Remember when no job group was open any more, as far as that is news."""
        if self.over_at is None:
            self.over_at, self.over_since = at, since

    def observation(
        self, key: RunKey, word: str | None, parts: Sequence[RunState], *, at: datetime
    ) -> Observation:
        """Return what it says of itself, with what its job groups show of its origin."""
        row = self.row or FlowRunRow(id=key.id)
        observation = flow_run_observation(
            row, key=key, native_status=word, source=Source.POLL, observed_at=at
        )
        return with_origin(observation, parts)


class DueFlowRuns(Struct, frozen=True, kw_only=True):
    """Ids of those that are to be read now; of ``fresh`` the one that has waited longest first."""

    fresh: list[str]
    old: list[str]


class TrackedFlowRuns:
    """All of them by their ids, and when each is to be read: by its urgency, a queue for each.

    `FlowRuns` bounds them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._runs: dict[str, TrackedFlowRun] = {}
        self.queues: dict[Urgency, DueQueue[str, None]] = {
            urgency: DueQueue(clock, bound=None) for urgency in Urgency
        }

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, flow_run_id: str) -> TrackedFlowRun | None:
        return self._runs.get(flow_run_id)

    def values(self) -> Iterable[TrackedFlowRun]:
        return self._runs.values()

    def track(self, flow_run_id: str) -> TrackedFlowRun:
        """Return the flow run, from now on tracked; it is read when that is scheduled."""
        return self._runs.setdefault(flow_run_id, TrackedFlowRun(id=flow_run_id))

    def forget(self, flow_run_id: str) -> None:
        if (tracked := self._runs.pop(flow_run_id, None)) is not None:
            self.pause(tracked)

    def is_scheduled(self, tracked: TrackedFlowRun) -> bool:
        return tracked.id in self.queues[tracked.urgency]

    def schedule(self, tracked: TrackedFlowRun, *, after_seconds: float) -> None:
        """Let it be read after so long, by its present urgency."""
        self.pause(tracked)
        if tracked.id in self._runs:
            self.queues[tracked.urgency].put(tracked.id, None, after_seconds=after_seconds)

    def pause(self, tracked: TrackedFlowRun) -> None:
        """Let it not be read before that is scheduled."""
        for queue in self.queues.values():
            queue.remove(tracked.id)

    async def due(self, urgency: Urgency | None) -> DueFlowRuns:
        """Return those of one urgency, or of all (None), that are due: longest due first."""
        now, due, old = self._clock.monotonic(), list[tuple[float, str]](), list[str]()
        for queue in self.queues.values() if urgency is None else (self.queues[urgency],):
            async for flow_run_id in in_slices(list(queue), size=_SLICE):
                due_at, tracked = queue.due_at(flow_run_id), self._runs.get(flow_run_id)
                if tracked is None or due_at > now:
                    continue
                if tracked.is_old:
                    old.append(flow_run_id)
                else:
                    due.append((due_at, flow_run_id))
        ordered = await sorted_in_slices(due, key=tuple, size=_SLICE)
        return DueFlowRuns(fresh=[flow_run_id for _, flow_run_id in ordered], old=old)


class UnreadableFlowRuns:
    """Counts failed reads, and shows in live state the flow runs whose reads all failed."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._answered_at = -NEVER  # monotonic: when any flow run was read last

    def failed(self, flow_run_id: str, tracked: TrackedFlowRun, error: MonitorError) -> bool:
        """Count a failed read; True from the last attempt on, by which it is named."""
        context = self._context
        if is_about_the_object(error) and not context.is_unreachable():
            tracked.failures += 1
            tracked.failing_since = min(tracked.failing_since, context.clock.monotonic())
        if tracked.failures < context.settings.attempts:
            return False
        if tracked.failures == context.settings.attempts:
            log.warning("flow run not readable", flow_run=flow_run_id, reason=str(error))
        run = UnreadableRun(
            kind=RunKind.FLOW_RUN, id=flow_run_id, tried_at=context.clock.now(), reason=str(error)
        )
        self._show((*self._without(flow_run_id), run)[-_NAMED_AT_MOST:])
        return True

    def is_alone(self, tracked: TrackedFlowRun) -> bool:
        """True where others were read since it cannot be: then it shows nothing about them."""
        return self._answered_at >= tracked.failing_since

    def answered(self, flow_run_id: str, tracked: TrackedFlowRun) -> None:
        """The flow run was read."""
        self._answered_at = self._context.clock.monotonic()
        tracked.failures, tracked.failing_since = 0, NEVER
        self.forget(flow_run_id)

    def forget(self, flow_run_id: str) -> None:
        """Name it no more: it was read, has ended, or is gone."""
        if any(run.id == flow_run_id for run in self._named()):
            self._show(self._without(flow_run_id))

    def _named(self) -> tuple[UnreadableRun, ...]:
        return self._context.live_state.workspaces[self._context.name].unreadable

    def _without(self, flow_run_id: str) -> tuple[UnreadableRun, ...]:
        return tuple(run for run in self._named() if run.id != flow_run_id)

    def _show(self, runs: tuple[UnreadableRun, ...]) -> None:
        self._context.live_state.update_workspace(self._context.name, unreadable=runs)


async def by_flow_run(
    context: PollContext, observed: Sequence[Observed]
) -> dict[str, list[Observation]]:
    """Return the job groups among these that the store holds, by the id of their flow run."""
    # What the observer has not stored shows nothing yet.
    unstored = (
        ObservationOutcome.NEEDS_DETAIL,
        ObservationOutcome.UNCONFIRMED,
        ObservationOutcome.NO_ROOM,
    )
    stored = [observation for observation, outcome in observed if outcome not in unstored]
    # A row that does not show its flow run is not read again where the store knows it.
    unlinked = [run.key for run in stored if run.parents.flow_run is None]
    known = await context.observer.known(unlinked) if unlinked else {}
    groups: dict[str, list[Observation]] = {}
    for observation in stored:
        state = known.get(observation.key)
        parents = observation.parents if state is None else state.parents
        if parents.flow_run is not None:
            groups.setdefault(parents.flow_run, []).append(observation)
    return groups


async def are_old(context: PollContext, groups: Sequence[Observation]) -> bool:
    """True where all of them ended before we followed: then their flow run may have, too."""
    keys = [group.key for group in groups]
    states = await context.observer.known(keys)
    return all(key in states and states[key].historical for key in keys)
