"""Polls changes: the job groups that were written since the last poll."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import TryLaterError
from monitor.model.runs import RunKind, Source
from monitor.polling.context import PollContext
from monitor.polling.poll_loop.intervals import ChangeInterval
from monitor.polling.poll_loop.poll import Interval, Poll
from monitor.polling.runs.flow_runs import FlowRuns
from monitor.polling.runs.job_groups import JobGroups
from monitor.polling.runs.refetch_queue import RefetchQueue
from monitor.polling.runs.watermark import Watermark
from monitor.workspace.payloads import JobGroupRow, Page, PlanRunRow
from monitor.workspace.priority import Priority

RunRow = TypeVar("RunRow", JobGroupRow, PlanRunRow)
# With the workspace's time when reading the rows began, None where it is not known.
HandleRows = Callable[[Sequence[RunRow], Source, datetime | None], Awaitable[bool]]

CHANGES = "changes"


class Changes:
    """Polls the job groups that were written since the watermark less the overlap."""

    def __init__(
        self,
        context: PollContext,
        *,
        job_groups: JobGroups,
        flow_runs: FlowRuns,
        refetch_queue: RefetchQueue,
    ) -> None:
        self._context = context
        self._job_groups = job_groups
        self._flow_runs = flow_runs
        self._refetch_queue = refetch_queue
        self.watermark = Watermark(context, CHANGES)

    def declared(self, change_interval: ChangeInterval) -> tuple[Poll, ...]:
        return (
            Poll(
                name=CHANGES,
                priority=Priority.CHANGES,
                timing=Interval(seconds=change_interval.seconds, wake=change_interval.job_groups),
                run=self.poll,
                needs=Capability.LIST_CHANGES,
            ),
        )

    async def poll(self) -> None:
        """Handle every page; the watermark moves when all of them are committed, not before.

        Raises:
            TryLaterError: some rows could not be handled yet; the others are.
        """
        asked_at, theirs = self._context.clock.now(), self._context.workspace_now()
        pages = self._context.client.runs.job_library(
            updated_since=self.watermark.since(), priority=Priority.CHANGES
        )
        is_complete = await handle_changes(
            pages, RunKind.JOB_GROUP, self._job_groups.handle, self.watermark, self._refetch_queue
        )
        if not is_complete:
            raise TryLaterError("some job groups could not be read by their ids yet")
        confirm = partial(self._context.live_state.confirm, self._context.name)
        confirm(RunKind.JOB_GROUP, asked_at, complete_at=theirs)
        if self._flow_runs.knows_all_ends():
            confirm(RunKind.FLOW_RUN, asked_at, complete_at=theirs)


async def handle_changes(
    pages: AsyncIterator[Page[RunRow]],
    kind: RunKind,
    handle: HandleRows[RunRow],
    watermark: Watermark,
    refetch_queue: RefetchQueue,
) -> bool:
    """Handle every page, then move the watermark; False, and it stays, if rows must come again."""
    began_at: datetime | None = None
    newest_at: datetime | None = None
    is_complete = True
    async for page in pages:
        began_at = page.began_at if page.number == 1 else began_at
        await refetch_queue.add_bad_rows(kind, page.bad_rows)
        is_complete = await handle(page.rows, Source.POLL, page.began_at) and is_complete
        newest_at = latest(newest_at, *(row.updated_at for row in page.rows))
    if is_complete:
        # Without a ``Date`` header the newest stamp is all that is known of its time.
        await watermark.move(began_at or newest_at)
    return is_complete


def latest(*instants: datetime | None) -> datetime | None:
    return max((at for at in instants if at is not None), default=None)
