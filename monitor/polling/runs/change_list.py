"""One list of changed runs: handled page by page, compared with what it must show, and dated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from monitor.model.runs import RunKind, Source
from monitor.polling.context import PollContext
from monitor.polling.lists.written_rows import ReadRun, WrittenRows
from monitor.polling.runs.refetch_queue import RefetchQueue
from monitor.polling.runs.watermark import Watermark
from monitor.workspace.payloads import JobGroupRow, Page, PlanRunRow

RunRow = TypeVar("RunRow", JobGroupRow, PlanRunRow)
# With the workspace's time when reading the rows began, None where it is not known.
HandleRows = Callable[[Sequence[RunRow], Source, datetime | None], Awaitable[bool]]
RequestChanges = Callable[[datetime], AsyncIterator[Page[RunRow]]]


class ChangeList(Generic[RunRow]):
    """Reads what was written since the watermark less the overlap."""

    def __init__(
        self,
        context: PollContext,
        name: str,
        kind: RunKind,
        *,
        written: WrittenRows,
        refetch_queue: RefetchQueue,
    ) -> None:
        self._context = context
        self._kind = kind
        self._written = written
        self._refetch_queue = refetch_queue
        self.watermark = Watermark(context, name)

    async def load(self) -> None:
        """Read the watermark and what the list must show behind it from the store."""
        await self.watermark.load()
        if (at := self.watermark.at) is not None:
            overlap = timedelta(seconds=self._context.settings.overlap_seconds)
            await self._written.load(self._kind, since=at - overlap)

    async def read(
        self,
        request: RequestChanges[RunRow],
        handle: HandleRows[RunRow],
        read_run: ReadRun,
    ) -> bool:
        """Handle every page, then move the watermark; False, and it stays, if rows must come again.

        Raises:
            DoubtedListError: the list lacks what must be in it; what it shows is handled.
        """
        since = self.watermark.since()
        # Before the request: what other lists show meanwhile may be newer than the answer.
        required = self._written.required(since)
        began_at: datetime | None = None
        newest_at: datetime | None = None
        is_complete, shows_all_ids = True, True
        shown: set[str] = set()
        known: set[str] = set()
        async for page in request(since):
            began_at = page.began_at if page.number == 1 else began_at
            ids = {row.id for row in page.rows} | {bad.id for bad in page.bad_rows if bad.id}
            shows_all_ids = shows_all_ids and all(bad.id for bad in page.bad_rows)
            known.update(self._written.known(ids - shown))
            shown |= ids
            await self._refetch_queue.add_bad_rows(self._kind, page.bad_rows)
            is_complete = await handle(page.rows, Source.POLL, page.began_at) and is_complete
            self._written.saw(page.rows, is_listed=True)
            newest_at = _latest(newest_at, *(row.updated_at for row in page.rows))
        if shows_all_ids:  # a row without an id may be any that seems to be missing
            await self._written.compare(
                frozenset(shown), required=required, known=known, read=read_run
            )
        if is_complete:
            # Without a ``Date`` header the newest stamp is all that is known of its time.
            await self.watermark.move(began_at or newest_at)
        return is_complete


def _latest(*instants: datetime | None) -> datetime | None:
    return max((at for at in instants if at is not None), default=None)
