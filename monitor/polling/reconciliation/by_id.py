"""Reads single runs by their ids: the only way in edition LE, and for runs that are named."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.errors import (
    MonitorError,
    NoSuchObjectError,
    NotAvailableError,
    RequestRejectedError,
    WorkspaceError,
)
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, Source
from monitor.model.slices import for_each
from monitor.polling.flow_runs.flow_runs import FlowRuns
from monitor.polling.job_groups.job_groups import JobGroups
from monitor.polling.lists.list_check import ListChecks
from monitor.polling.plan_runs.plan_runs import PlanRuns
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import ChangeInterval, Interval, Poll, wait_after_reads
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.polling.reconciliation.denied_runs import DeniedRuns
from monitor.polling.run_observations import has_ended
from monitor.polling.settings import followed_run
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_READS_AT_ONCE = 4
_NAMED_AT_MOST = 1_000
_FAILURES_TO_BE_LAST = 2  # once may be chance


class ById:
    """Reads runs one by one."""

    def __init__(
        self,
        context: PollContext,
        *,
        job_groups: JobGroups,
        flow_runs: FlowRuns,
        plan_runs: PlanRuns,
        checks: ListChecks,
    ) -> None:
        self._context = context
        self._job_groups = job_groups
        self._flow_runs = flow_runs
        self._plan_runs = plan_runs
        self._checks = checks
        self.denied = DeniedRuns(context, checks=checks, flow_runs=flow_runs)
        # Runs that were named and could not be read yet, with the attempts; read at each poll.
        self._named = {followed_run(context.name, text): 0 for text in context.settings.follow}
        self._given_up: BoundedMemory[RunKey, bool] = BoundedMemory(_NAMED_AT_MOST)
        self._failures: dict[RunKey, int] = {}  # of reads of active runs, in a row

    def declared(self, change_interval: ChangeInterval) -> tuple[Poll, ...]:
        context = self._context

        def seconds() -> float:
            if context.can(Capability.LIST_CHANGES):
                return change_interval.seconds()
            per_minute = context.client.settings.requests_per_minute
            reads = len(context.active_keys(RunKind.JOB_GROUP))
            return max(change_interval.seconds(), wait_after_reads(per_minute, reads=reads))

        return (
            Poll(
                name="by_id",
                priority=Priority.CHANGES,
                timing=Interval(seconds=seconds),
                run=self.poll,
                needs=Capability.FOLLOW_BY_ID,
            ),
        )

    async def confirm(self, key: RunKey) -> bool | None:
        """Read one run by its id and observe it.

        True: it exists and was observed. False: the workspace denies it, or it is none that is
        followed. None: the workspace could not be read now.
        """
        return await self._confirm(key, Source.POLL)

    async def track(self, key: RunKey) -> bool | None:
        """Read one run by its id, as `confirm`; where that fails it is read later."""
        answer = await self._confirm(key, Source.TRACK)
        if answer is None and len(self._named) < _NAMED_AT_MOST:
            self._named.setdefault(key, 0)
        return answer

    def untrack(self, key: RunKey) -> bool:
        """Name a run no more; True where it was named and not read yet."""
        return self._named.pop(key, None) is not None

    def gave_up(self, key: RunKey) -> bool:
        """True once where a named run was given up, as only it cannot be read."""
        has_given_up = self._given_up.get(key) is not None
        self._given_up.forget(key)
        return has_given_up

    async def poll(self) -> bool:
        """Read the runs that were named and, where changes cannot be listed, all active ones.

        Return False where there was nothing to read.

        Raises:
            MonitorError: not all of them could be read.
        """
        named = list(self._named)
        failures = [await self._try_named(key) for key in named]
        has_read = bool(named)
        if not self._context.can(Capability.LIST_CHANGES):
            has_read = await self._read_all_active() or has_read
        for failure in failures:
            if failure is not None:
                raise failure
        return has_read

    async def _try_named(self, key: RunKey) -> MonitorError | None:
        """Read a run that was named, a bounded number of times where only it cannot be read."""
        try:
            if not await self._read_or_deny(key, Source.TRACK):
                log.warning("named run cannot be followed", run=str(key))
        except MonitorError as error:
            if not is_about_the_object(error):
                raise
            if key in self._named:
                self._named[key] += not self._context.is_unreachable()
                if self._named[key] < self._context.settings.attempts:
                    return error
                log.warning("named run given up", run=str(key), reason=str(error))
                self._given_up.put(key, value=True)
        self._named.pop(key, None)
        return None

    async def _confirm(self, key: RunKey, source: Source) -> bool | None:
        if self._context.is_unproven() or self._context.is_cut_off():
            return None
        try:
            return await self._read_or_deny(key, source)
        except MonitorError as error:
            log.info("run not confirmed", run=str(key), reason=str(error))
            return None

    async def _read_or_deny(self, key: RunKey, source: Source) -> bool:
        try:
            return await self.read(key, source, Priority.CHANGES)
        except (NoSuchObjectError, NotAvailableError, RequestRejectedError) as error:
            # Some answer 400 for what they do not have; without a name it is not their answer.
            if isinstance(error, RequestRejectedError) and not error.exception_name:
                raise
            log.info("run denied by the workspace", run=str(key), reason=str(error))
            return False

    async def _read_all_active(self) -> bool:
        """Read every active job group once, the one confirmed longest ago first.

        Those that failed again and again come last, those with the most failures at the very end:
        they must hold up neither the others nor, once it can be read again, one of themselves.
        """
        began, theirs = self._context.clock.monotonic(), self._context.workspace_now()
        held = self._context.all_active_keys()
        refused: MonitorError | None = None
        active = self._context.active_keys(RunKind.JOB_GROUP)
        self._failures = {key: self._failures[key] for key in active if key in self._failures}
        keys = sorted(active, key=self._failures_that_count)
        for first in itertools.count(step=_READS_AT_ONCE):
            batch = keys[first : first + _READS_AT_ONCE]
            if not batch:
                break
            # A failure that concerns all of them ends the poll: the rest is first in the next.
            refused = await self._read_batch(batch) or refused
        await self.denied.end(began=began, held=held)
        if refused is not None:
            raise refused
        # Where only the list is missing, reading what is known shows nothing about new runs.
        if not self._context.is_refused(Capability.LIST_CHANGES):
            self._checks.of_pipelines[RunKind.JOB_GROUP].require_runs(asked=began)
            self._context.live_state.confirm(
                self._context.name,
                RunKind.JOB_GROUP,
                self._context.our_time(began),
                complete_at=theirs,
            )
        return bool(keys)

    def _failures_that_count(self, key: RunKey) -> int:
        failures = self._failures.get(key, 0)
        return failures if failures >= _FAILURES_TO_BE_LAST else 0

    async def _read_batch(self, keys: Sequence[RunKey]) -> MonitorError | None:
        results = await for_each(
            keys, self._try_to_read, at_once=_READS_AT_ONCE, name="reading an active run"
        )
        failures = [result for result in results if result is not None]
        for failure in failures:
            if not isinstance(failure, NotAvailableError):
                raise failure
        return failures[0] if failures else None

    async def _try_to_read(self, key: RunKey) -> MonitorError | None:
        try:
            await self.read(key, Source.POLL, Priority.CHANGES)
        except NoSuchObjectError:
            self.denied.add(key)
        except WorkspaceError as error:
            self._failures[key] = self._failures.get(key, 0) + 1
            return error
        self._failures.pop(key, None)
        return None

    async def read(self, key: RunKey, source: Source, priority: Priority) -> bool:
        """Read one run of any kind and observe it; False where its kind is not followed.

        Raises:
            WorkspaceError: it could not be read.
        """
        was_active = key in self._context.live_state.active
        asked = self._context.clock.monotonic()
        is_followed = await self._read(key, source, priority)
        if was_active:
            self._checks.known_runs[key.kind].record(asked=asked)
        return is_followed

    async def _read(self, key: RunKey, source: Source, priority: Priority) -> bool:
        client, requested_at = self._context.client, self._context.workspace_now()
        if key.kind is RunKind.JOB_GROUP:
            row = await client.runs.job_group(key.id, with_flow=True, priority=priority)
            return await self._job_groups.handle_read(row, source, requested_at)
        if key.kind is RunKind.PLAN_RUN:
            plan_run = await client.runs.plan_run(key.id, priority=priority)
            await self._plan_runs.handle((plan_run,), source, requested_at)
            return True
        await self._read_flow_run(key, source, priority)
        return True

    async def _read_flow_run(self, key: RunKey, source: Source, priority: Priority) -> None:
        requested_at = self._context.workspace_now()
        status = await self._context.client.runs.flow_run_status(key.id, priority=priority)
        if not has_ended(status):
            observation = Observation(
                key=key,
                source=source,
                observed_at=self._context.clock.now(),
                requested_at=requested_at,
                native_status=status,
            )
            await self._context.observer.observe((observation,))
        # Its end, with all that belongs to it, is for the poll of flow runs to observe.
        await self._flow_runs.track(key)

    async def read_queued(self, key: RunKey, is_last: bool) -> None:  # noqa: FBT001 - a callback's signature
        """Read one run of the refetch queue and observe it with all that can be known of it.

        Raises:
            WorkspaceError: it could not be read.
        """
        if key.kind is not RunKind.JOB_GROUP:
            await self.read(key, Source.RECONCILIATION, Priority.RECONCILIATION)
            return
        row = await self._context.client.runs.job_group(
            key.id, with_flow=True, priority=Priority.RECONCILIATION
        )
        await self._job_groups.handle_queued(row, is_last=is_last)
