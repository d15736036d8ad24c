"""Flow runs. They cannot be listed: job groups show their start, and their own status the end.

The end is never computed from the job groups, because a later one may still appear. When all
known ones are over, status and job groups are read, again with growing waits, until the status
names an end and no listed job group is unfinished.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import msgspec
import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import (
    BudgetExhaustedError,
    MonitorError,
    NoSuchObjectError,
    NotAvailableError,
)
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import RunKey, RunKind, RunState, Source, Trigger
from monitor.model.waits import backoff_seconds
from monitor.polling.context import PollContext
from monitor.polling.poll_loop.bounded_memory import BoundedMemory
from monitor.polling.poll_loop.failures import is_about_the_object
from monitor.polling.poll_loop.for_each import for_each
from monitor.polling.poll_loop.poll import Poll, WhenDue
from monitor.polling.poll_loop.wake_signal import WakeSignal
from monitor.polling.runs.old_flow_runs import OldFlowRuns
from monitor.polling.runs.plan_links import PlanLinks
from monitor.polling.runs.reasons import Reasons
from monitor.polling.runs.run_observations import flow_run_begun, flow_run_observation, has_ended
from monitor.workspace.payloads import FlowRunRow, JobGroupRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

Observed = tuple[Observation, ObservationOutcome]
HandleJobGroups = Callable[[Sequence[JobGroupRow], Source], Awaitable[bool]]

_BASE_WAIT_SECONDS = 1.0
_READS_AT_ONCE = 4
_REMEMBERED_ENDS = 10_000
_NEVER = float("inf")


@dataclass(slots=True, kw_only=True)
class _Tracked:
    """What we know of one flow run that has not ended, besides its state."""

    open_groups: set[str] = field(default_factory=set)
    due_at: float = _NEVER  # monotonic
    reads: int = 0  # in a row in which it had not ended
    failures: int = 0  # to read it, where others can be read
    row: FlowRunRow | None = None
    is_old: bool = False  # only old job groups have shown it, and it was not observed yet
    is_failing: bool = False  # the last read brought no answer


class FlowRuns:
    """Follows flow runs from the job groups that show them to the end that they report."""

    def __init__(self, context: PollContext, *, links: PlanLinks, reasons: Reasons) -> None:
        self._context = context
        self._links = links
        self._reasons = reasons
        self._tracked: dict[str, _Tracked] = {}
        self.old = OldFlowRuns()
        self._ended: BoundedMemory[str, bool] = BoundedMemory(_REMEMBERED_ENDS)
        self._wake, self._wake_old = WakeSignal(context.clock), WakeSignal(context.clock)

    def declared(self, handle_job_groups: HandleJobGroups) -> tuple[Poll, ...]:
        # Two polls: no end waits behind old flow runs, which are read when there is nothing else.
        return tuple(
            Poll(
                name=name,
                priority=priority,
                timing=WhenDue(
                    seconds_until_due=partial(self.seconds_until_due, are_old=are_old), wake=wake
                ),
                run=partial(self.poll, handle_job_groups, are_old=are_old),
            )
            for name, priority, wake, are_old in (
                ("flow_runs", Priority.ENDS, self._wake, False),
                ("old_flow_runs", Priority.INVENTORY, self._wake_old, True),
            )
        )

    async def load(self) -> None:
        """Resume the flow runs that had not ended when the monitor stopped."""
        for key in self._context.active_keys(RunKind.FLOW_RUN):
            await self._resume(key)

    async def _resume(self, key: RunKey) -> _Tracked:
        children = await self._context.bus.children(key)
        tracked = self._tracked[key.id] = _Tracked(
            open_groups={child.key.id for child in children if not child.status.is_terminal}
        )
        if not tracked.open_groups:
            self._schedule_read(tracked, after_seconds=0.0)
        return tracked

    async def track(self, key: RunKey) -> None:
        """Read this flow run soon, whatever job groups have shown of it."""
        if key.id not in self._tracked:
            await self._resume(key)
        self._schedule_read(self._tracked[key.id], after_seconds=0.0)

    async def notice(self, observed: Sequence[Observed]) -> None:
        """Learn about flow runs from observed job groups, which have been committed."""
        if not self._context.can(Capability.FOLLOW_FLOW_RUNS):
            return
        groups = await self._by_flow_run(observed)
        keys = [self._context.key(RunKind.FLOW_RUN, group) for group in groups]
        known = await self._context.observer.known(keys) if keys else {}
        begun = []
        for key in keys:
            state = known.get(key)
            if state is not None and state.status.is_terminal:
                self.forget(key.id)
            elif await self._learn(key, groups[key.id], is_known=state is not None):
                begun.append(flow_run_begun(key.id, groups[key.id]))
        if begun:
            await self._context.observer.observe(self._links.apply(begun))
            await self._observe_records([run.key for run in begun if known.get(run.key) is None])

    async def _observe_records(self, keys: Sequence[RunKey]) -> None:
        """Observe the records of flow runs that were read before their start was durable."""
        for key in keys:
            tracked = self._tracked.get(key.id)
            if tracked is not None and tracked.row is not None:
                await self._observe(key, tracked.row, native_status=None)

    async def _by_flow_run(self, observed: Sequence[Observed]) -> dict[str, list[Observation]]:
        # What the observer has not stored shows nothing yet.
        unstored = (ObservationOutcome.NEEDS_DETAIL, ObservationOutcome.UNCONFIRMED)
        stored = [observation for observation, outcome in observed if outcome not in unstored]
        # A row that does not show its flow run is not read again where the store knows it.
        unlinked = [run.key for run in stored if run.parents.flow_run is None]
        known = await self._context.observer.known(unlinked) if unlinked else {}
        groups: dict[str, list[Observation]] = {}
        for observation in stored:
            state = known.get(observation.key)
            parents = observation.parents if state is None else state.parents
            if parents.flow_run is not None:
                groups.setdefault(parents.flow_run, []).append(observation)
        return groups

    def knows_all_ends(self) -> bool:
        """True where the last read of each flow run that may have ended brought an answer."""
        return not self._context.is_refused(Capability.FOLLOW_FLOW_RUNS) and not any(
            tracked.is_failing and not tracked.is_old for tracked in self._tracked.values()
        )

    def seconds_until_due(self, *, are_old: bool | None = None) -> float | None:
        """Return when `poll` has something to do; None where nothing is waited for."""
        due_at = min(
            (item.due_at for item in self._tracked.values() if are_old in (None, item.is_old)),
            default=_NEVER,
        )
        if due_at == _NEVER:
            return None
        return max(0.0, due_at - self._context.clock.monotonic())

    async def poll(
        self, handle_job_groups: HandleJobGroups, *, are_old: bool | None = None
    ) -> None:
        """Read every flow run that is due: of those that are old or not, or of both (None).

        Raises:
            MonitorError: the first failure; the other flow runs have been read. None for old ones
                that found no room in the request budget.
        """
        now = self._context.clock.monotonic()
        due = sorted(
            (tracked.is_old, tracked.due_at, flow_run_id)
            for flow_run_id, tracked in self._tracked.items()
            if tracked.due_at <= now and are_old in (None, tracked.is_old)
        )
        old = self.old.in_order(flow_run_id for is_old, _, flow_run_id in due if is_old)

        async def read(flow_run_id: str) -> MonitorError | None:
            return await self._try_to_end(flow_run_id, handle_job_groups)

        failures = await for_each(
            [*(flow_run_id for is_old, _, flow_run_id in due if not is_old), *old],
            read,
            at_once=_READS_AT_ONCE,
            name="reading a flow run's end",
        )
        for failure in failures:
            # No failure: old flow runs wait for room as long as it takes.
            if failure is not None and not (are_old and isinstance(failure, BudgetExhaustedError)):
                raise failure

    async def _learn(self, key: RunKey, groups: Sequence[Observation], *, is_known: bool) -> bool:
        """Keep track; True where the job groups show that the flow run has begun."""
        if self._ended.get(key.id) is not None:
            return False
        tracked = self._tracked.get(key.id)
        if tracked is None or tracked.is_old:
            shows_only_old = not is_known and await self._are_old(groups)
            if tracked is None and shows_only_old and not self.old.has_room(groups):
                return False
            tracked = tracked or await self._resume(key)
            tracked.is_old = shows_only_old
            self.old.put(key.id, groups if shows_only_old else ())
        tracked.open_groups.update(group.key.id for group in groups)
        self._plan_next_read(tracked)
        return not tracked.is_old

    async def _are_old(self, groups: Sequence[Observation]) -> bool:
        """True where all of them ended before we followed: then the flow run may have, too."""
        keys = [group.key for group in groups]
        states = await self._context.observer.known(keys)
        return all(key in states and states[key].historical for key in keys)

    def _plan_next_read(self, tracked: _Tracked) -> None:
        self._close_ended(tracked)
        if tracked.open_groups and tracked.row is not None:
            # Its job groups will show when it may have ended.
            tracked.due_at = _NEVER
            tracked.reads = 0
        elif tracked.due_at == _NEVER:
            self._schedule_read(tracked, after_seconds=0.0)

    def _close_ended(self, tracked: _Tracked) -> None:
        # Live state decides, not the row: a slow list may show a job group as it was before
        # a quicker one showed its end.
        active = self._context.live_state.active
        tracked.open_groups = {
            open_group
            for open_group in tracked.open_groups
            if self._context.key(RunKind.JOB_GROUP, open_group) in active
        }

    def _schedule_read(self, tracked: _Tracked, *, after_seconds: float) -> None:
        tracked.due_at = self._context.clock.monotonic() + after_seconds
        self._wake.set()
        self._wake_old.set()

    async def _try_to_end(
        self, flow_run_id: str, handle_job_groups: HandleJobGroups
    ) -> MonitorError | None:
        tracked = self._tracked.get(flow_run_id)
        if tracked is None:
            return None
        try:
            await self._read(flow_run_id, tracked, handle_job_groups)
        except NoSuchObjectError as error:
            # Whether it is gone for good is for the reconciliation to decide.
            log.info("flow run not found", flow_run=flow_run_id, reason=str(error))
            key = self._context.key(RunKind.FLOW_RUN, flow_run_id)
            if key in self._context.live_state.active:
                self._wait(tracked)
            else:
                # It was never observed, so no reconciliation will ever end it.
                self.forget(flow_run_id)
        except MonitorError as error:
            if tracked.is_old and self._is_hopeless(tracked, error):
                log.info("old flow run given up", flow_run=flow_run_id, reason=str(error))
                self.forget(flow_run_id)
                return error
            # One that is refused to us grows old by itself; it shows nothing about the others.
            is_refused = isinstance(error, NotAvailableError)
            tracked.is_failing = not is_refused
            self._wait(tracked, is_refused=is_refused)
            return error
        tracked.is_failing = False
        return None

    def _is_hopeless(self, tracked: _Tracked, error: MonitorError) -> bool:
        if is_about_the_object(error) and not self._context.is_unreachable():
            tracked.failures += 1
        return tracked.failures >= self._context.settings.attempts

    async def _read(
        self, flow_run_id: str, tracked: _Tracked, handle_job_groups: HandleJobGroups
    ) -> None:
        client = self._context.client
        priority = Priority.INVENTORY if tracked.is_old else Priority.ENDS
        key = self._context.key(RunKind.FLOW_RUN, flow_run_id)
        if tracked.row is None:
            tracked.row = await client.runs.flow_run(flow_run_id, priority=priority)
            if not tracked.is_old:
                await self._observe(key, tracked.row, native_status=None)
        self._plan_next_read(tracked)
        if tracked.open_groups:
            return
        requested_at = self._context.workspace_now()
        status = await client.runs.flow_run_status(flow_run_id, priority=priority)
        page = await client.runs.flow_run_job_groups(flow_run_id, priority=priority)
        rows = [_of_flow_run(row, flow_run_id) for row in page.rows]
        # Its job groups come first, so that they end before what they are part of.
        are_handled = await handle_job_groups(rows, Source.POLL)
        unfinished = [row for row in rows if not has_ended(row.native_status)]
        if has_ended(status) and are_handled and not unfinished:
            await self._end(key, tracked.row, status, rows)
            return
        tracked.is_old = False
        self.old.forget(flow_run_id)
        word = None if unfinished else status
        await self._observe(key, tracked.row, native_status=word, requested_at=requested_at)
        self._wait_for(tracked, unfinished)

    def _wait_for(self, tracked: _Tracked, unfinished: Sequence[JobGroupRow]) -> None:
        """Plan the next read of a flow run that has not ended."""
        ranfor = self._context.settings.ranfor
        tracked.open_groups = {row.id for row in unfinished if row.ran_for in (None, *ranfor)}
        self._close_ended(tracked)
        if tracked.open_groups and len(tracked.open_groups) == len(unfinished):
            self._plan_next_read(tracked)
            return
        # Nothing shows us the end of a sample, nor when the status will catch up.
        tracked.open_groups.clear()
        self._wait(tracked)

    async def _observe(
        self,
        key: RunKey,
        row: FlowRunRow,
        *,
        native_status: str | None,
        requested_at: datetime | None = None,
    ) -> None:
        """Observe what the flow run's own record shows; not of a run that is unknown so far."""
        if native_status is None and not await self._context.observer.known((key,)):
            return
        if has_ended(native_status):
            native_status = None  # its status runs ahead of its job groups
        observation = self._observation(key, row, native_status)
        observation = msgspec.structs.replace(observation, requested_at=requested_at)
        await self._context.observer.observe((observation,))

    def _observation(self, key: RunKey, row: FlowRunRow, native_status: str | None) -> Observation:
        return flow_run_observation(
            row,
            key=key,
            native_status=native_status,
            source=Source.POLL,
            observed_at=self._context.clock.now(),
        )

    async def _end(
        self, key: RunKey, row: FlowRunRow, status: str, groups: Sequence[JobGroupRow]
    ) -> None:
        observation = await self._with_origin(self._observation(key, row, status), groups)
        observations = await self._reasons.complete((observation,))
        self._reasons.observed(observations, await self._context.observer.observe(observations))
        self.forget(key.id)

    async def _with_origin(
        self, observation: Observation, groups: Sequence[JobGroupRow]
    ) -> Observation:
        """Add what only the job groups show: the owner and, where need be, flow and trigger."""
        states = list((await self._group_states(groups)).values())
        pipelines = [state.pipeline for state in states if state.pipeline is not None]
        triggers = [state.trigger for state in states if state.trigger is not Trigger.UNKNOWN]
        owners = [state.owner for state in states if state.owner is not None]
        is_scheduled = observation.trigger is Trigger.SCHEDULE
        return msgspec.structs.replace(
            observation,
            pipeline=observation.pipeline or (pipelines[0] if pipelines else None),
            trigger=triggers[0] if triggers and not is_scheduled else observation.trigger,
            owner=owners[0] if owners else None,
        )

    async def _group_states(self, groups: Sequence[JobGroupRow]) -> dict[RunKey, RunState]:
        return await self._context.observer.known([self._group_key(row) for row in groups])

    def _group_key(self, row: JobGroupRow) -> RunKey:
        return self._context.key(RunKind.JOB_GROUP, row.id)

    def _wait(self, tracked: _Tracked, *, is_refused: bool = False) -> None:
        tracked.reads += 1
        settings = self._context.settings
        cap_seconds = (
            settings.reconcile_seconds if is_refused else settings.flow_run_wait_cap_seconds
        )
        wait = backoff_seconds(
            tracked.reads, base_seconds=_BASE_WAIT_SECONDS, cap_seconds=cap_seconds
        )
        self._schedule_read(tracked, after_seconds=wait)

    def forget(self, flow_run_id: str) -> None:
        """Stop reading a flow run that has ended or is gone."""
        self._ended.put(flow_run_id, value=True)
        self._tracked.pop(flow_run_id, None)
        self.old.forget(flow_run_id)


def _of_flow_run(row: JobGroupRow, flow_run_id: str) -> JobGroupRow:
    """Add what the list may leave out: that these are the flow run's job groups."""
    return msgspec.structs.replace(row, shows_flow_run=True, flow_run_id=flow_run_id)
