"""Which rows a list of changed runs must show: those whose last write lies in its window."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.model.runs import RunKind
from monitor.polling.context import PollContext
from monitor.polling.lists.list_check import ListCheck
from monitor.polling.poll_loop.bounded_memory import BoundedMemory
from monitor.workspace.payloads import JobGroupRow, PlanRunRow

_REMEMBERED_ROWS = 4_096
_LOADED_ROWS = 1_000

# Reads one run by its id and handles it as any other row.
ReadRun = Callable[[str], Awaitable[object]]


class _Write(Struct, frozen=True, gc=False):
    """The last write of a row, and the last one under which the list has shown it."""

    at: datetime
    listed: datetime | None


class WrittenRows:
    """The last writes of the rows of one kind of run, from whatever source they come.

    A list may show a write some time after it, so until it has shown this very write it is
    required only when it is older than the overlap.
    """

    def __init__(self, context: PollContext, check: ListCheck) -> None:
        self._context = context
        self.check = check
        self._writes: BoundedMemory[str, _Write] = BoundedMemory(_REMEMBERED_ROWS)

    async def load(self, kind: RunKind, *, since: datetime) -> None:
        """Remember what the store knows to be written ``since``: a list must show that as well."""
        stored = await self._context.bus.recent_runs(
            workspace=self._context.name, kind=kind, limit=_LOADED_ROWS
        )
        active = (active_run.run for active_run in self._context.live_state.active.values())
        for run in (*stored, *active):
            is_own = run.key.workspace == self._context.name and run.key.kind is kind
            if is_own and run.updated_at is not None and run.updated_at >= since:
                at = run.updated_at.replace(microsecond=0)
                self._writes.put(run.key.id, _Write(at, listed=at))

    def saw(self, rows: Iterable[JobGroupRow | PlanRunRow], *, is_listed: bool = False) -> None:
        """Remember the last writes of rows; ``is_listed``: the list of changes shows them."""
        for row in rows:
            if row.updated_at is None:
                self._writes.forget(row.id)
                continue
            at = row.updated_at.replace(microsecond=0)  # lists and reads differ in digits
            before = self._writes.get(row.id)
            listed = at if is_listed else before.listed if before is not None else None
            self._writes.put(row.id, _Write(at, listed))

    def is_required(self, run_id: str, updated_at: datetime | None) -> bool:
        """True where a list cannot be late any more with this last write of a run."""
        if updated_at is None:
            return False
        write = self._writes.get(run_id)
        if write is not None and write.listed == updated_at.replace(microsecond=0):
            return True
        overlap = timedelta(seconds=self._context.settings.overlap_seconds)
        return updated_at < self._context.workspace_now() - overlap

    def was_listed(self, run_id: str) -> bool:
        """True where the list of changes has shown the run before."""
        write = self._writes.get(run_id)
        return write is not None and write.listed is not None

    def known(self, ids: Iterable[str]) -> list[str]:
        """Return those that had been seen before."""
        return [id_ for id_ in ids if self._writes.get(id_) is not None]

    def required(self, since: datetime) -> frozenset[str]:
        """Return what a list of what was written ``since`` must show if it is requested now."""
        # A stamp cut to its second may stand for a later instant, never for an earlier one.
        edge = since + timedelta(seconds=1)
        return frozenset(
            id_
            for id_, write in list(self._writes.items())
            if write.at >= edge and self.is_required(id_, write.at)
        )

    async def compare(
        self,
        shown: frozenset[str],
        *,
        required: frozenset[str],
        known: Iterable[str],
        read: ReadRun,
    ) -> None:
        """Find out whether the list is whole: what it shows against what was `required` of it.

        ``known`` are those of ``shown`` that had been seen before it.

        Raises:
            DoubtedListError: it is not, or not all of what it lacks is verified yet.
            WorkspaceError: what it lacks could not be read.
        """
        known = tuple(known)
        self.check.showed(known)
        # In the order in which they were remembered, without what was forgotten meanwhile.
        missing = [id_ for id_, _ in self._writes.items() if id_ in required - shown]

        async def must_be_listed(id_: str) -> bool:
            before = self._writes.get(id_)
            await read(id_)
            return before == self._writes.get(id_)  # else it was written since, and may come late

        async def remove(id_: str, _is_gone: bool) -> bool:  # noqa: FBT001 - a callback's signature
            self._writes.forget(id_)
            return True

        await self.check.verify(
            missing, shows_known=bool(known), must_be_listed=must_be_listed, remove=remove
        )
