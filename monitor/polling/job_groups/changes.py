"""Polls changes: the job groups that were written since the last poll."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import TryLaterError
from monitor.model.runs import RunKind, Source
from monitor.polling.job_groups.job_groups import JobGroups
from monitor.polling.lists.change_list import ChangeList
from monitor.polling.lists.expected_rows import ExpectedRows
from monitor.polling.lists.refetch_queue import RefetchQueue
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import ChangeInterval, Interval, Poll
from monitor.workspace.payloads import JobGroupRow, Page
from monitor.workspace.priority import Priority

CHANGES = "changes"

# Confirms flow runs by a whole list of changes; takes when it was requested, our time and theirs.
ConfirmFlowRuns = Callable[[datetime, datetime], None]


class Changes:
    """Polls the job groups that were written since the watermark less the overlap."""

    def __init__(
        self,
        context: PollContext,
        *,
        job_groups: JobGroups,
        confirm_flow_runs: ConfirmFlowRuns,
        written: ExpectedRows,
        refetch_queue: RefetchQueue,
    ) -> None:
        self._context = context
        self._job_groups = job_groups
        self._confirm_flow_runs = confirm_flow_runs
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
                run_woken=self.poll_newest,
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
        asked, theirs = self._context.clock.monotonic(), self._context.workspace_now()
        _require(await self.list.read(self._request, self._job_groups.handle_page, self._read))
        asked_at = self._context.our_time(asked)
        self._context.live_state.confirm(
            self._context.name, RunKind.JOB_GROUP, asked_at, complete_at=theirs
        )
        self._confirm_flow_runs(asked_at, theirs)

    async def poll_newest(self) -> None:
        """Handle what was written since the newest change known: the news of a callback.

        It shows nothing of what may appear later, so nothing counts as confirmed by it.

        Raises:
            TryLaterError: as `poll`.
        """
        _require(
            await self.list.read_newest(self._request, self._job_groups.handle_page, self._read)
        )

    def _request(self, since: datetime) -> AsyncIterator[Page[JobGroupRow]]:
        return self._context.client.runs.job_library(
            updated_since=since,
            is_known=self._job_groups.is_known,
            newest_first=self.list.is_first,
            priority=Priority.CHANGES,
        )

    async def _read(self, job_group_id: str) -> None:
        """Read one job group that the list lacks, and observe it."""
        requested_at = self._context.workspace_now()
        row = await self._context.client.runs.job_group(
            job_group_id, with_flow=True, priority=Priority.CHANGES
        )
        await self._job_groups.handle_read(row, Source.POLL, requested_at)


def _require(is_complete: bool) -> None:  # noqa: FBT001 - what a list of changes returns
    if not is_complete:
        raise TryLaterError("some job groups could not be read by their ids yet")
