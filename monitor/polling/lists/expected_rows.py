"""Rows that a list of changed runs must show: those whose last write lies in its window."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.model.bounded_memory import BoundedMemory
from monitor.model.runs import RunKind, Source
from monitor.model.slices import in_slices
from monitor.polling.lists.list_check import ListChecks
from monitor.polling.poll_loop.context import PollContext
from monitor.workspace.payloads import JobGroupRow, PlanRunRow, RowHead

_REMEMBERED_ROWS = 20_000  # what an overlap of two minutes holds where 160 runs end a second
_SLICE = 2_000  # remembered rows; one takes up to a microsecond
_LOADED_ROWS = 1_000
# Who may know a write before the list of changes shows it; most of the others are that list.
_BY_ID = (Source.RECONCILIATION, Source.TRACK, Source.CALLBACK)

ShownRow = JobGroupRow | PlanRunRow | RowHead
# Reads one run by its id and handles it as any other row.
ReadRun = Callable[[str], Awaitable[object]]


class _Write(Struct, frozen=True, gc=False):
    """The last write of a row, and the last one under which the list has shown it.

    ``handled`` is its head when it was last handled; ``is_over``: it had nothing more to show.
    """

    id: str
    at: datetime
    listed: datetime | None
    handled: RowHead | None = None
    is_over: bool = False


class ExpectedRows:
    """The last writes of the rows of one kind of run, from whatever source they come.

    Lists repeat rows, which are recognised as handled as long as they do not change.

    A list may show a write some time after it, so until it has shown this very write it is
    required only when it is older than the overlap.
    """

    def __init__(self, context: PollContext, checks: ListChecks, kind: RunKind) -> None:
        self._context = context
        self.check, self.unshared = checks.of_runs[kind], checks.unshared
        self._pipelines = checks.of_pipelines[kind]
        self._writes: BoundedMemory[str, _Write] = BoundedMemory(_REMEMBERED_ROWS)

    @property
    def is_doubted(self) -> bool:
        """True while nothing follows from their list: it is wrong, or they are hidden from it."""
        return self.check.is_doubted or self._pipelines.hides_runs

    def require(self) -> None:
        """Let nothing follow from their list while it is doubted.

        Raises:
            DoubtedListError: it is.
        """
        self.check.require()
        self._pipelines.require_runs(asked=self._context.clock.monotonic())

    async def load(self, kind: RunKind, *, since: datetime) -> None:
        """Remember what the store knows to be written ``since``: a list must show that as well."""
        stored = await self._context.bus.recent_runs(
            workspaces=[self._context.name], kind=kind, limit=_LOADED_ROWS
        )
        active = (active_run.run for active_run in self._context.live_state.active.values())
        for run in (*stored, *active):
            is_own = run.key.workspace == self._context.name and run.key.kind is kind
            if is_own and run.updated_at is not None and run.updated_at >= since:
                at = run.updated_at.replace(microsecond=0)
                listed = None if run.confirmed_by in _BY_ID else at
                self._writes.put(run.key.id, _Write(run.key.id, at, listed))

    def saw(self, rows: Iterable[ShownRow], *, is_listed: bool = False) -> None:
        """Remember the last writes of rows; ``is_listed``: the list of changes shows them."""
        for row in rows:
            if row.updated_at is None:
                self._writes.forget(row.id)
                continue
            at = row.updated_at.replace(microsecond=0)  # lists and reads differ in digits
            before = self._writes.get(row.id)
            listed = at if is_listed else before.listed if before is not None else None
            if before is None or (before.at, before.listed) != (at, listed):
                handled, is_over = (before.handled, before.is_over) if before else (None, False)
                self._writes.put(row.id, _Write(row.id, at, listed, handled, is_over))

    def handled(self, row: ShownRow, *, is_over: bool) -> None:
        """Remember that a row that was seen was handled; ``is_over``: it can show no more."""
        before = self._writes.get(row.id)
        if before is not None:
            write = msgspec.structs.replace(before, handled=_head_of(row), is_over=is_over)
            self._writes.put(row.id, write)

    def forget(self, run_id: str) -> None:
        """Handle the row of this run again whenever a list shows it."""
        self._writes.forget(run_id)

    def is_handled(self, row: ShownRow) -> bool:
        """True where this very row was handled before."""
        write = self._writes.get(row.id)
        return write is not None and _is_same(write.handled, row)

    def is_over(self, row: ShownRow) -> bool:
        """True where this very row was handled before and had nothing more to show."""
        write = self._writes.get(row.id)
        return write is not None and write.is_over and _is_same(write.handled, row)

    def is_required(self, run_id: str, updated_at: datetime | None) -> bool:
        """True where a list cannot be late any more with this last write of a run."""
        if updated_at is None:
            return False
        write = self._writes.get(run_id)
        if write is not None and write.listed == updated_at.replace(microsecond=0):
            return True
        return updated_at < self._late_before()

    def _last_of(self, run_id: str) -> tuple[datetime, datetime | None] | None:
        write = self._writes.get(run_id)
        return None if write is None else (write.at, write.listed)

    def was_listed(self, run_id: str) -> bool:
        """True where the list of changes has shown the run before."""
        write = self._writes.get(run_id)
        return write is not None and write.listed is not None

    def known(self, ids: Iterable[str]) -> list[str]:
        """Return those that had been seen before."""
        return [id_ for id_ in ids if self._writes.get(id_) is not None]

    async def required(self, since: datetime) -> frozenset[str]:
        """Return what a list of what was written ``since`` must show if it is requested now."""
        # A stamp cut to its second may stand for a later instant, never for an earlier one.
        edge, late = since + timedelta(seconds=1), self._late_before()
        return frozenset(
            [
                write.id
                async for write in in_slices(list(self._writes.values()), size=_SLICE)
                if write.at >= edge and (write.listed == write.at or write.at < late)
            ]
        )

    def _late_before(self) -> datetime:
        """Return before when a write is shown by every list."""
        overlap = timedelta(seconds=self._context.settings.overlap_seconds)
        return self._context.workspace_now() - overlap

    async def compare(
        self,
        shown: frozenset[str],
        *,
        required: frozenset[str],
        known: Iterable[str],
        asked: float,
        read: ReadRun,
    ) -> None:
        """Find out whether the list is whole: what it shows against what was `required` of it.

        ``known`` are those of ``shown`` that had been seen before it was ``asked`` for, monotonic.

        Raises:
            DoubtedListError: it is not, or not all of what it lacks is verified yet.
            WorkspaceError: what it lacks could not be read.
        """
        known = tuple(known)
        self.check.showed(known, asked=asked)
        # In the order in which they were remembered, without what was forgotten meanwhile.
        lacking = required - shown
        written = self._writes.values() if lacking else ()
        missing = [write.id for write in written if write.id in lacking]

        async def must_be_listed(id_: str) -> bool:
            before = self._last_of(id_)
            await read(id_)
            return before == self._last_of(id_)  # else it was written since, and may come late

        async def remove(id_: str, _is_gone: bool) -> bool:  # noqa: FBT001 - a callback's signature
            self._writes.forget(id_)
            return True

        await self.check.verify(
            missing, shows_known=bool(known), must_be_listed=must_be_listed, remove=remove
        )
        self._pipelines.require_runs(asked=asked)


def _head_of(row: ShownRow) -> RowHead:
    if isinstance(row, RowHead):
        return row
    return RowHead(id=row.id, native_status=row.native_status, updated_at=row.updated_at)


def _is_same(head: RowHead | None, row: ShownRow) -> bool:
    return (
        head is not None
        and head.updated_at == row.updated_at
        and head.native_status == row.native_status
    )
