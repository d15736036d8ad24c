"""Spoils lists: rows come late or not, move between pages, change places or cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TypeVar

import msgspec

from monitor.catalogue.operations import Operation
from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.request.listing import ListQuery
from monitor.sandbox.api.response.faulty import Chances
from monitor.sandbox.world.records.objects import Record
from monitor.sandbox.world.records.runs import JobGroup, PlanSnapshotRun
from monitor.sandbox.world.shelves import World

T = TypeVar("T", bound=Record)

# An id below those that job groups have; by it nothing is found.
POISON_ID = 39_999
_POISON: dict[str, Json] = {
    "types": {
        "id": POISON_ID,
        "status": 7,
        "ranfor": ["recipe"],
        "createdAt": {"seconds": 1},
        "updatedAt": "yesterday",
        "wrangledDataset": "none",
        "flowRun": [],
        "creator": 1,
    },
    "id": {"id": {"value": POISON_ID}, "status": "Complete", "ranfor": "recipe"},
    "text": "an internal error occurred while this row was read",
}
_POISONED = frozenset({"listJobLibrary", "countJobLibrary"})


class FaultyLists:
    """Stands between the rows that there are and the page that is shown."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chances = Chances(world)

    def visible(self, rows: Iterable[T]) -> Iterable[T]:
        """Return the rows without those that are late or missing."""
        if self._world.options.missing_rows > 0:
            rows = (row for row in rows if not self._is_drawn("missing_rows", row))
        return self._in_time(rows) if self._world.options.late_rows > 0 else rows

    def requested(self, operation: Operation, query: ListQuery) -> ListQuery:
        """Return which page is served instead of the requested one."""
        offset, limit = query.offset, query.limit
        if self._world.options.page_cap > 0 and limit is not None:
            limit = min(limit, self._world.options.page_cap)
        if offset > 0 and self._chances.strikes("shifted_pages"):
            offset = max(0, offset + self._shift())
        if self._poison(operation) is not None:
            # The poison stands before all others, so their positions are one further back.
            if query.offset > 0:
                offset -= 1
            elif limit is not None:
                limit -= 1
        return msgspec.structs.replace(query, offset=max(0, offset), limit=limit)

    def shown(self, operation: Operation, query: ListQuery, page: list[Json]) -> list[Json]:
        """Return the page as it goes out; ``query`` is what the caller requested."""
        if self._chances.strikes("shuffled_pages"):
            self._chances.of("shuffling").shuffle(page)
        poison = self._poison(operation)
        if poison is not None and query.offset == 0:
            page.insert(0, poison)
        return page

    def count(self, operation: Operation, count: int) -> int:
        """Return how many rows there are, unreadable ones too."""
        return count if self._poison(operation) is None else count + 1

    def _poison(self, operation: Operation) -> Json:
        if operation.operation_id not in _POISONED:
            return None
        return _POISON.get(self._world.options.poison_row)

    def _shift(self) -> int:
        return self._world.options.page_shift or self._chances.of("page_shift").choice((-1, 1))

    def _in_time(self, rows: Iterable[T]) -> Iterator[T]:
        options = self._world.options
        visible_until = self._world.now() - timedelta(seconds=options.late_seconds)
        for row in rows:
            is_run = isinstance(row, JobGroup | PlanSnapshotRun)
            if is_run and row.updated_at > visible_until and self._is_drawn("late_rows", row):
                continue
            yield row

    def _is_drawn(self, fault: str, row: Record) -> bool:
        drawn = self._world.random("fault", fault, type(row).__name__, row.id).random()
        ratio: float = getattr(self._world.options, fault)
        return drawn < ratio
