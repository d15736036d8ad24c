"""Flow runs. They cannot be listed: job groups show their start, and their own status the end.

When all known job groups are over, the status is read, again with growing waits, until it names an
end. It is believed at once where it is what the job groups come to and earlier runs of the flow had
the same ones. Otherwise the flow run's own list of job groups is read as well, and none of those
may be unfinished; it is read later where nothing is known of the flow and others wait for a status.

Where no doubt is left, see `derived_ends`, the end is published without a read, and marked as
derived. It is read afterwards, slowly and when there is nothing else to read, at once when one of
its job groups moves; if the status is another one, the end is corrected. The failure of a flow run
whose reads are refused is derived, too, and corrected if it can be read later: whether it ignores
errors of its recipes nothing else shows. An end is read again where that of a job group changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial

import msgspec
import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.errors import (
    BudgetExhaustedError,
    MonitorError,
    NoSuchObjectError,
    NotAvailableError,
)
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import RunKey, RunKind, RunState, Source, Status, status_of
from monitor.model.slices import for_each, in_slices
from monitor.polling.flow_runs.derived_ends import DerivedEnds
from monitor.polling.flow_runs.flow_run_reader import FlowRunReader, HandleJobGroups, OldFlowRuns
from monitor.polling.flow_runs.tracked_flow_runs import (
    BASE_SECONDS,
    TrackedFlowRun,
    TrackedFlowRuns,
    UnreadableFlowRuns,
    Urgency,
    are_old,
    by_flow_run,
)
from monitor.polling.links.plan_links import PlanLinks
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, when_due
from monitor.polling.reasons import Reasons
from monitor.polling.run_observations import Observed, flow_run_begun, has_ended
from monitor.workspace.payloads import JobGroupRow

log = structlog.get_logger()

_READS_PER_POLL = 50  # then those that need none come first again
_TRACKED_AT_MOST = 10_000  # with derived ends, which are not read beyond that
_RESUMED_AT_MOST = 2_000  # derived ends of earlier runs of the monitor
_READS_AT_ONCE = 4
_REMEMBERED_ENDS = 10_000


class FlowRuns:
    """Follows flow runs from the job groups that show them to the end that they report."""

    def __init__(self, context: PollContext, *, links: PlanLinks, reasons: Reasons) -> None:
        self._context = context
        self._links = links
        self._reasons = reasons
        self._derived = DerivedEnds(context)
        self.old = OldFlowRuns()
        self._reader = FlowRunReader(context, usual=self._derived.usual, old=self.old)
        self._unreadable = UnreadableFlowRuns(context)
        self._tracked = TrackedFlowRuns(context.clock)
        self._ended: BoundedMemory[str, bool] = BoundedMemory(_REMEMBERED_ENDS)

    def declared(self, handle_job_groups: HandleJobGroups) -> tuple[Poll, ...]:
        # Several polls: no end waits for what is read when there is nothing else.
        return tuple(
            Poll(
                name=urgency,
                priority=urgency.priority,
                timing=when_due(self._tracked.queues[urgency]),
                run=partial(self.poll, handle_job_groups, urgency),
            )
            for urgency in Urgency
        )

    async def load(self) -> None:
        """Resume the flow runs whose end was not reported when the monitor stopped."""
        for key in self._context.active_keys(RunKind.FLOW_RUN):
            self._plan_next_read(await self._resume(key))
        recent = await self._context.bus.recent_runs(
            workspaces=[self._context.name], kind=RunKind.FLOW_RUN, limit=_RESUMED_AT_MOST
        )
        for run in recent:
            if run.has_derived_end:
                self._confirm_later(await self._resume(run.key))

    async def _resume(self, key: RunKey) -> TrackedFlowRun:
        children = await self._context.bus.children(key)
        # Another task may have come to know it meanwhile.
        tracked = self._tracked.track(key.id)
        tracked.open_groups.update(
            child.key.id for child in children if not child.status.is_terminal
        )
        return tracked

    async def track(self, key: RunKey) -> None:
        """Read this flow run soon, whatever job groups have shown of it."""
        tracked = self._tracked.get(key.id) or await self._resume(key)
        self._tracked.schedule(tracked, after_seconds=0.0)

    async def notice(self, observed: Sequence[Observed]) -> None:
        """Learn about flow runs from observed job groups, which have been committed."""
        self._reasons.doubt_ends_around(observed)
        if not self._context.can(Capability.FOLLOW_FLOW_RUNS):
            return
        groups = await by_flow_run(self._context, observed)
        moved = {run.key for run, outcome in observed if outcome is ObservationOutcome.CHANGED}
        keys = [self._context.key(RunKind.FLOW_RUN, group) for group in groups]
        known = await self._context.observer.known(keys) if keys else {}
        begun = []
        for key in keys:
            state = known.get(key)
            if state is not None and await self._derived.may_have_changed(
                state, moved, groups[key.id]
            ):
                self._doubt(key, groups[key.id], moved)
            elif state is not None and state.status.is_terminal:
                self.forget(key.id)
            elif await self._learn(key, groups[key.id], is_known=state is not None):
                begun.append(flow_run_begun(key.id, groups[key.id]))
        if begun:
            await self._context.observer.observe(self._links.apply(begun))
        # No end is read before the start is durable.
        for key in keys:
            tracked = self._tracked.get(key.id)
            if tracked is not None and tracked.urgency is not Urgency.CONFIRMATION:
                self._plan_next_read(tracked)

    def _doubt(self, key: RunKey, groups: Sequence[Observation], moved: Collection[RunKey]) -> None:
        """Read an end again if one of these job groups was not known, or not to be so."""
        ids = {group.key.id for group in groups if group.key in moved}
        if ids:
            is_new = self._tracked.get(key.id) is None
            tracked = self._tracked.track(key.id)
            tracked.is_derived, tracked.is_doubted = tracked.is_derived or is_new, True
            tracked.open_groups |= ids
            self._tracked.pause(tracked)

    def knows_all_ends(self) -> bool:
        """True where the last read of each flow run that may have ended brought an answer."""
        return not self._context.is_refused(Capability.FOLLOW_FLOW_RUNS) and not any(
            tracked.is_failing and tracked.urgency is Urgency.NOW
            for tracked in self._tracked.values()
        )

    def confirm(self, at: datetime, theirs: datetime) -> None:
        """Confirm them by a whole list of changes, requested then by our clock and by theirs."""
        if self.knows_all_ends():
            # Not complete before the newest flow run of each flow is known, however old it is.
            complete_at = None if self.old.newest_of_flows() else theirs
            self._context.live_state.confirm(
                self._context.name, RunKind.FLOW_RUN, at, complete_at=complete_at
            )

    def seconds_until_due(self, urgency: Urgency | None = None) -> float | None:
        """Return when `poll` has something to do; None where nothing is waited for."""
        queues = self._tracked.queues
        own = queues.values() if urgency is None else (queues[urgency],)
        waits = [wait for queue in own if (wait := queue.seconds_until_due()) is not None]
        return min(waits, default=None)

    async def poll(
        self, handle_job_groups: HandleJobGroups, urgency: Urgency | None = None
    ) -> None:
        """End the flow runs that are due, of one urgency or of all (None), with or without a read.

        Raises:
            MonitorError: the first failure; the other flow runs have been read. None for those that
                can wait and found no room in the request budget.
        """
        due = await self._tracked.due(urgency)
        fresh = in_slices(due.fresh)  # up to 10,000 that are tracked
        unread = [id_ async for id_ in fresh if not await self._end_without_reading(id_)]

        async def read(flow_run_id: str) -> MonitorError | None:
            if await self._end_without_reading(flow_run_id):
                return None  # by what those before it have shown of their flow
            return await self._try_to_end(flow_run_id, handle_job_groups)

        reads = [*unread[:_READS_PER_POLL], *self.old.in_order(due.old)]
        failures = await for_each(reads, read, at_once=_READS_AT_ONCE, name="reading a flow run")
        for failure in failures:
            can_wait = urgency not in (None, Urgency.NOW)  # no lack of room is a failure then
            if failure and not (can_wait and isinstance(failure, BudgetExhaustedError)):
                raise failure

    async def _end_without_reading(self, flow_run_id: str) -> bool:
        """Publish the end that the job groups show; True where none need be read now."""
        tracked = self._tracked.get(flow_run_id)
        if tracked is None:
            return True  # it has ended meanwhile
        if tracked.is_derived or tracked.reads or tracked.over_at is None:
            return False
        key = self._context.key(RunKind.FLOW_RUN, flow_run_id)
        parts = await self._context.bus.children(key)
        wait_seconds = await self._derived.seconds_to_wait_for_parts(key, parts, tracked.over_at)
        waited = self._context.clock.monotonic() - tracked.over_since
        if wait_seconds is None or 0 < wait_seconds <= waited:
            return False
        if wait_seconds:
            self._tracked.schedule(tracked, after_seconds=BASE_SECONDS)
            return True
        observation = msgspec.structs.replace(
            tracked.observation(key, parts[0].native_status, parts, at=self._context.clock.now()),
            source=Source.PARTS,
        )
        await self._end(observation, parts, is_listed=True)
        self._close_ended(tracked)
        self.old.forget(flow_run_id)
        tracked.is_old, tracked.is_derived = False, True
        tracked.is_doubted = bool(tracked.open_groups)
        self._confirm_later(tracked)
        return True

    def _confirm_later(self, tracked: TrackedFlowRun) -> None:
        """Plan to read a derived end, each after the one before it."""
        if tracked.is_doubted:
            self._tracked.pause(tracked)
            self._plan_next_read(tracked)
            return
        tracked.is_derived = True
        if len(self._tracked) > _TRACKED_AT_MOST:
            self.forget(tracked.id)
        else:
            wait = self._derived.seconds_until_confirmation()
            self._tracked.schedule(tracked, after_seconds=wait)

    async def _learn(self, key: RunKey, groups: Sequence[Observation], *, is_known: bool) -> bool:
        """Keep track; True where the job groups show that the flow run has begun."""
        if self._ended.get(key.id) is not None:
            return False
        tracked = self._tracked.get(key.id)
        if tracked is None or tracked.is_old:
            shows_only_old = not is_known and await are_old(self._context, groups)
            if tracked is None and shows_only_old and not self.old.has_room(groups):
                return False
            tracked = tracked or await self._resume(key)
            tracked.is_old = shows_only_old
            self.old.put(key.id, groups if shows_only_old else ())
        tracked.open_groups.update(group.key.id for group in groups)
        return not tracked.is_old

    def _plan_next_read(self, tracked: TrackedFlowRun) -> None:
        self._close_ended(tracked)
        if tracked.open_groups:
            # They will show when it may have ended.
            tracked.over_at, tracked.reads = None, 0
            self._tracked.pause(tracked)
            return
        tracked.are_over(self._context.workspace_now(), since=self._context.clock.monotonic())
        if not self._tracked.is_scheduled(tracked):
            self._tracked.schedule(tracked, after_seconds=0.0)

    def _close_ended(self, tracked: TrackedFlowRun) -> None:
        # Live state decides, not the row: a slow list may show a job group as it was before
        # a quicker one showed its end.
        active = self._context.live_state.active
        tracked.open_groups = {
            open_group
            for open_group in tracked.open_groups
            if self._context.key(RunKind.JOB_GROUP, open_group) in active
        }

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
            if self._context.key(RunKind.FLOW_RUN, flow_run_id) in self._context.live_state.active:
                self._wait(tracked)
            else:
                # It was never observed, so no reconciliation will ever end it.
                self.forget(flow_run_id)
        except MonitorError as error:
            is_unreadable = self._unreadable.failed(flow_run_id, tracked, error)
            is_refused = isinstance(error, NotAvailableError)
            if is_unreadable and is_refused and await self._end_as_failed(flow_run_id, tracked):
                return None
            if is_refused and tracked.urgency is Urgency.CONFIRMATION:
                self._wait(tracked, is_refused=True)
                return None  # rights may come back; until then its parts are believed
            if tracked.urgency is not Urgency.NOW and is_unreadable:
                self.forget(flow_run_id, is_given_up=True)
                return error
            # One that is refused to us grows old by itself; it shows nothing about the others.
            is_alone = is_unreadable and self._unreadable.is_alone(tracked)
            tracked.is_failing = not (is_alone or is_refused)
            self._wait(tracked, is_refused=not tracked.is_failing)
            return error
        tracked.is_failing = False
        return None

    async def _end_as_failed(self, flow_run_id: str, tracked: TrackedFlowRun) -> bool:
        """Publish the failure of a flow run that is refused to us; True where its parts show it."""
        key = self._context.key(RunKind.FLOW_RUN, flow_run_id)
        if tracked.urgency is not Urgency.NOW or tracked.is_derived or tracked.over_at is None:
            return False
        parts = await self._context.bus.children(key)
        failed = self._derived.failed_part(parts, tracked.over_at)
        if failed is None:
            return False
        now = self._context.clock.now()
        end = tracked.observation(key, failed.native_status, parts, at=now)
        await self._end(msgspec.structs.replace(end, source=Source.PARTS), parts, is_listed=True)
        self._confirm_later(tracked)
        return True

    async def _read(
        self, flow_run_id: str, tracked: TrackedFlowRun, handle_job_groups: HandleJobGroups
    ) -> None:
        key = self._context.key(RunKind.FLOW_RUN, flow_run_id)
        self._plan_next_read(tracked)
        if tracked.open_groups:
            return
        requested_at = self._context.workspace_now()
        shown = await self._reader.read(key, tracked, handle_job_groups)
        self._unreadable.answered(flow_run_id, tracked)
        self._close_ended(tracked)
        if tracked.open_groups and not shown.unfinished:
            self._plan_next_read(tracked)  # one has appeared meanwhile
            return
        now = self._context.clock.now()
        observed = partial(tracked.observation, key, parts=shown.parts, at=now)
        if shown.is_over:
            await self._end(observed(shown.status), shown.parts, is_listed=shown.is_listed)
            return
        tracked.is_old, tracked.is_doubted = False, tracked.is_derived
        self.old.forget(flow_run_id)
        # Its status may run ahead of its job groups.
        word = None if shown.unfinished or has_ended(shown.status) else shown.status
        observation = msgspec.structs.replace(observed(word), requested_at=requested_at)
        await self._context.observer.observe((observation,))
        self._wait_for(tracked, shown.unfinished)

    def _wait_for(self, tracked: TrackedFlowRun, unfinished: Sequence[JobGroupRow]) -> None:
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

    async def _end(self, end: Observation, parts: Sequence[RunState], *, is_listed: bool) -> None:
        observations = await self._reasons.complete((end,))
        outcomes = await self._context.observer.observe(observations)
        self._reasons.observed(observations, outcomes)
        if end.source is Source.PARTS:
            return
        tracked = self._tracked.get(end.key.id)
        if ObservationOutcome.CONTRADICTED in outcomes and tracked is not None:
            self._wait(tracked)  # it may be what is reported from now on
            return
        self.forget(end.key.id)
        if not is_listed:
            self._confirm_later(self._tracked.track(end.key.id))
        elif status_of(end.native_status) is Status.SUCCEEDED:
            self._derived.usual.learn(parts)

    def _wait(self, tracked: TrackedFlowRun, *, is_refused: bool = False) -> None:
        wait = tracked.seconds_to_next_read(self._context.settings, is_refused=is_refused)
        self._tracked.schedule(tracked, after_seconds=wait)

    def forget(self, flow_run_id: str, *, is_given_up: bool = False) -> None:
        """Stop reading a flow run that has ended or is gone; one that is given up stays named."""
        self._ended.put(flow_run_id, value=True)
        self._tracked.forget(flow_run_id)
        self.old.forget(flow_run_id)
        if not is_given_up:
            self._unreadable.forget(flow_run_id)
