"""Polls changes: the job groups that were written since the last poll."""

from __future__ import annotations

from functools import partial

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import TryLaterError
from monitor.model.runs import RunKind, Source
from monitor.polling.context import PollContext
from monitor.polling.lists.written_rows import WrittenRows
from monitor.polling.poll_loop.intervals import ChangeInterval
from monitor.polling.poll_loop.poll import Interval, Poll
from monitor.polling.runs.change_list import ChangeList
from monitor.polling.runs.flow_runs import FlowRuns
from monitor.polling.runs.job_groups import JobGroups
from monitor.polling.runs.refetch_queue import RefetchQueue
from monitor.workspace.payloads import JobGroupRow
from monitor.workspace.priority import Priority

CHANGES = "changes"


class Changes:
    """Polls the job groups that were written since the watermark less the overlap."""

    def __init__(
        self,
        context: PollContext,
        *,
        job_groups: JobGroups,
        flow_runs: FlowRuns,
        written: WrittenRows,
        refetch_queue: RefetchQueue,
    ) -> None:
        self._context = context
        self._job_groups = job_groups
        self._flow_runs = flow_runs
        self._written = written
        self.list: ChangeList[JobGroupRow] = ChangeList(
            context, CHANGES, RunKind.JOB_GROUP, written=written, refetch_queue=refetch_queue
        )
        self.watermark = self.list.watermark

    def declared(self, change_interval: ChangeInterval) -> tuple[Poll, ...]:
        return (
            Poll(
                name=CHANGES,
                priority=Priority.CHANGES,
                timing=Interval(seconds=change_interval.seconds, wake=change_interval.job_groups),
                run=self.poll,
                needs=Capability.LIST_CHANGES,
                forget=self._written.check.forget,
            ),
        )

    async def poll(self) -> None:
        """Handle every page; the watermark moves when all of them are committed, not before.

        Raises:
            TryLaterError: some rows could not be handled yet, or the list lacks some that must be
                in it; all others are handled.
        """
        client = self._context.client
        asked_at, theirs = self._context.clock.now(), self._context.workspace_now()
        is_complete = await self.list.read(
            lambda since: client.runs.job_library(updated_since=since, priority=Priority.CHANGES),
            self._job_groups.handle,
            self._read,
        )
        if not is_complete:
            raise TryLaterError("some job groups could not be read by their ids yet")
        confirm = partial(self._context.live_state.confirm, self._context.name)
        confirm(RunKind.JOB_GROUP, asked_at, complete_at=theirs)
        if self._flow_runs.knows_all_ends():
            confirm(RunKind.FLOW_RUN, asked_at, complete_at=theirs)

    async def _read(self, job_group_id: str) -> None:
        """Read one job group that the list lacks, and observe it."""
        requested_at = self._context.workspace_now()
        row = await self._context.client.runs.job_group(
            job_group_id, with_flow=True, priority=Priority.CHANGES
        )
        await self._job_groups.handle_read(row, Source.POLL, requested_at)
