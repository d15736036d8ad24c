"""One list of changed runs: handled page by page, compared with what it must show, and dated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from monitor.bus.contract import decode_entries
from monitor.model.runs import RunKind, Source
from monitor.polling.lists.expected_rows import ExpectedRows, ReadRun, ShownRow
from monitor.polling.lists.refetch_queue import RefetchQueue
from monitor.polling.poll_loop.context import PollContext
from monitor.workspace.payloads import JobGroupRow, Page, PlanRunRow, RowHead

WATERMARK = "watermark"  # topic of its state entries


_DECODER: msgspec.json.Decoder[datetime] = msgspec.json.Decoder(Annotated[datetime, Meta(tz=True)])


class Watermark:
    """Durable; it moves only to the moment at which a poll that came to its end began."""

    def __init__(self, context: PollContext, poll: str) -> None:
        self._context = context
        self._poll = poll
        self._at: datetime | None = None
        # Monotonic: when the last poll began, and the one that moved the watermark.
        self._began: float | None = None
        self._completed: float | None = None

    @property
    def at(self) -> datetime | None:
        return self._at

    async def load(self) -> None:
        state_entries = await self._context.bus.state_entries(self._context.name, WATERMARK)
        # Without it the next poll begins where the first did: late, and no event repeats.
        own = {self._poll: state_entries[self._poll]} if self._poll in state_entries else {}
        self._at = decode_entries(own, _DECODER, topic=WATERMARK).get(self._poll)

    def since(self) -> datetime:
        """Return the time since which a poll that begins now requests changes."""
        settings = self._context.settings
        self._began = self._context.clock.monotonic()
        if self._at is None:
            followed_since = self._context.followed_since() or self._context.workspace_now()
            return followed_since - timedelta(seconds=settings.first_look_seconds)
        # A stamp may be cut to its second: without an overlap, too, this second is requested whole.
        return (self._at - timedelta(seconds=settings.overlap_seconds)).replace(microsecond=0)

    async def move(self, at: datetime | None) -> None:
        """Remember that everything before ``at`` is committed. None leaves it where it is.

        Durable on return; after a cancelled call the next poll reads from the old watermark or the
        new one, which only repeats rows.
        """
        before, self._completed = self._completed, self._began
        if at is None or at == self._at:
            return
        if self._at is not None and at < self._at and self._began is not None:
            # The workspace's clock was set back. What was written since the last complete poll
            # carries stamps of the new time, which lie before the old watermark: unseen so far.
            # Polls that came to their end before that was believed requested by the former time.
            set_ = self._context.client.requester.time.last_set
            before = self._began if before is None else before
            if set_ is not None and set_.noticed >= before:
                before = min(before, set_.after)
            at -= timedelta(seconds=self._began - before)
        await self._store(at)

    async def move_back(self, at: datetime | None) -> None:
        """Read again from ``at`` on: what was read since cannot be believed. Durable on return."""
        if at is None or self._at is None or at >= self._at:
            return
        await self._store(at)

    async def _store(self, at: datetime) -> None:
        state_entry = self._context.state_entry(WATERMARK, self._poll, msgspec.json.encode(at))
        await self._context.observer.observe((), state_entries=(state_entry,))
        self._at = at


RunRow = TypeVar("RunRow", JobGroupRow, PlanRunRow)
# False where some rows must come again.
HandlePage = Callable[[Page[RunRow], Source], Awaitable[bool]]
RequestChanges = Callable[[datetime], AsyncIterator[Page[RunRow]]]


class _Read(Struct, frozen=True, kw_only=True):
    """What a list has shown. ``is_complete`` False: some of its rows must come again."""

    is_complete: bool
    began_at: datetime | None
    newest_at: datetime | None


class ChangeList(Generic[RunRow]):
    """Reads what was written since the watermark less the overlap, or since the newest change."""

    def __init__(
        self,
        context: PollContext,
        name: str,
        kind: RunKind,
        *,
        written: ExpectedRows,
        refetch_queue: RefetchQueue,
    ) -> None:
        self._context = context
        self._kind = kind
        self._written = written
        self._refetch_queue = refetch_queue
        self.watermark = Watermark(context, name)
        self._newest_at: datetime | None = None  # that a whole list has shown
        # Every run that was created since is known: as far as the first list has come.
        self.reached: datetime | None = None

    @property
    def is_first(self) -> bool:
        """True until a whole list was read: the newest runs come first, and need no order."""
        return self.watermark.at is None

    async def load(self) -> None:
        """Read the watermark and what the list must show after it from the store."""
        await self.watermark.load()
        if (at := self.watermark.at) is not None:
            overlap = timedelta(seconds=self._context.settings.overlap_seconds)
            await self._written.load(self._kind, since=at - overlap)

    async def read(
        self,
        request: RequestChanges[RunRow],
        handle: HandlePage[RunRow],
        read_run: ReadRun,
    ) -> bool:
        """Handle every page, then move the watermark; False, and it stays, if rows must come again.

        Raises:
            DoubtedListError: the list lacks what must be in it; what it shows is handled.
        """
        unshared = self._written.unshared
        shown_again = unshared.shown_again(self._kind)
        await self.watermark.move_back(min(shown_again.values(), default=None))
        since = self.watermark.since()
        read = await self._read_since(since, request, handle, read_run)
        if read.is_complete:
            # Without a ``Date`` header the newest stamp is all that is known of its time.
            await self.watermark.move(read.began_at or read.newest_at)
            self._newest_at = _earliest(read.newest_at or since, read.began_at)
            unshared.caught_up(shown_again)
        return read.is_complete

    async def read_newest(
        self,
        request: RequestChanges[RunRow],
        handle: HandlePage[RunRow],
        read_run: ReadRun,
    ) -> bool:
        """Handle what was written since the newest change that a whole list has shown.

        Rows that appear later are for `read` to find, so the watermark stays; all else is
        as there. Before the first whole list this is `read` itself.
        """
        if self._newest_at is None:
            return await self.read(request, handle, read_run)
        # Stamps may be cut to their second, and more may be written in it: it is requested again.
        since = self._newest_at.replace(microsecond=0)
        read = await self._read_since(since, request, handle, read_run)
        if read.is_complete and read.newest_at is not None:
            self._newest_at = max(since, _earliest(read.newest_at, read.began_at))
        return read.is_complete

    async def _read_since(
        self,
        since: datetime,
        request: RequestChanges[RunRow],
        handle: HandlePage[RunRow],
        read_run: ReadRun,
    ) -> _Read:
        # Before the request: what other lists show meanwhile may be newer than the answer.
        required = await self._written.required(since)
        asked = self._context.clock.monotonic()
        began_at: datetime | None = None
        newest_at: datetime | None = None
        is_complete, shows_all_ids = True, True
        shown: set[str] = set()
        known: set[str] = set()
        page: Page[RunRow]
        async for page in request(since):
            began_at = page.began_at if page.number == 1 else began_at
            rows: list[ShownRow] = [*page.rows, *page.known]
            ids = {row.id for row in rows}
            ids |= {bad.id for bad in page.bad_rows if bad.id}
            shows_all_ids = shows_all_ids and all(bad.id for bad in page.bad_rows)
            known.update(self._written.known(ids - shown))
            shown |= ids
            await self._refetch_queue.add_bad_rows(self._kind, page.bad_rows)
            is_complete = await handle(page, Source.POLL) and is_complete
            self._written.saw(rows, is_listed=True)
            newest_at = _latest(newest_at, *(row.updated_at for row in rows))
            if self.is_first:
                self.reached = _reached(page.rows) or self.reached
        if shows_all_ids:  # a row without an id may be any that seems to be missing
            await self._written.compare(
                frozenset(shown), required=required, known=known, asked=asked, read=read_run
            )
        return _Read(is_complete=is_complete, began_at=began_at, newest_at=newest_at)


def _reached(rows: Sequence[ShownRow]) -> datetime | None:
    """Return when the last of the rows was created; None where they are not the newest first."""
    created = [row.created_at for row in rows if not isinstance(row, RowHead)]
    known = [at for at in created if at is not None]
    return known[-1] if known and known[-1] < known[0] else None


def _earliest(at: datetime, other: datetime | None) -> datetime:
    return at if other is None else min(at, other)


def _latest(*instants: datetime | None) -> datetime | None:
    return max((at for at in instants if at is not None), default=None)
