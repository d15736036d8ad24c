"""Read a list in pages until its end, without ever skipping a row that stays in it.

Pages are cut by position, so they shift when the list changes while it is read. We request
ascending ids: a new row then stands at the end and is read too, and a row that enters at a place
already read (an old run that was just changed) moves the others back, which only repeats some.
Descending ids show the newest rows first: a new row stands before all others and only moves them
back; like a row that changes behind our back it belongs to the next reading.
The danger is a row that leaves (its status no longer matches, it was deleted): the rest moves
forward, and the first row of the next page would be skipped. So pages overlap, and a page counts
only when it shows a row of the page before: ids do not change, hence nothing between the two was
lost. Without such a row the reading steps back until it finds one.

Where a workspace does not sort by id, the order is most likely newest change first: a row that
changes goes to the front, unread perhaps, but its change lies behind the moment when the reading
began, and so belongs to the next reading.

A page shorter than our limit is the end, unless the workspace has a limit of its own. The count
that the first page carries tells; where none comes, a short page of a likely length is doubted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import TypeVar

from monitor.model.errors import UnreadableAnswerError
from monitor.workspace.decoding import Rows
from monitor.workspace.payloads import Page

T = TypeVar("T")

RequestPage = Callable[[int, int], Awaitable[tuple[Rows[T], datetime | None]]]

_LONGEST_OVERLAP = 10
_LARGEST_PAGE = 1000  # the only published maximum
# A workspace may cap the page below our limit; a short page of such a length is doubted.
_LIKELY_CAPS = frozenset({10, 20, 25, 30, 40, 50, 100, 150, 200, 250, 500})
_PATIENCE = 5  # rows that enter before a page may repeat it a few times


def overlap_of(length: int) -> int:
    """Return how many rows of a page of that length the next page shall show again."""
    return min(_LONGEST_OVERLAP, max(1, length // 5))


def is_end(length: int, *, size: int, offset: int, brings_news: bool, count: int | None) -> bool:
    """True when nothing stands behind a page of so many rows.

    ``count`` is that of the whole list, which may be wrong: it proves that there is more only while
    pages bring more.
    """
    if length >= size:
        return False
    if not brings_news:
        return True
    return length not in _LIKELY_CAPS and (count is None or count <= offset + length)


async def read_pages(
    request_page: RequestPage[T], *, page_size: int, page_limit: int, operation_id: str
) -> AsyncIterator[Page[T]]:
    """Yield the pages of a list; rows may come more than once.

    ``request_page`` takes limit and offset.

    Raises:
        UnreadableAnswerError: the list does not advance, or has more than ``page_limit`` pages.
    """
    size = min(max(2, page_size), _LARGEST_PAGE)
    offset, step_back, idle = 0, 0, 0
    known: frozenset[str] = frozenset()  # ids of the last page that joins up with the first
    count: int | None = None
    for number in range(1, page_limit + 1):
        rows, began_at = await request_page(size, offset)
        count = count if rows.count is None else rows.count
        yield Page(
            rows=rows.rows,
            known=rows.known,
            bad_rows=rows.bad_rows,
            began_at=began_at,
            number=number,
        )
        if offset > 0 and known and not known & rows.ids:
            step_back = max(2 * step_back, 2 * overlap_of(size))
            offset = max(0, offset - step_back)
            continue
        brings_news = not rows.ids <= known or not rows.ids
        if rows.length == 0 or is_end(
            rows.length, size=size, offset=offset, brings_news=brings_news, count=count
        ):
            return
        idle = 0 if brings_news else idle + 1
        if idle >= _PATIENCE:
            raise UnreadableAnswerError(
                "the list shows the same page at every offset", operation_id=operation_id
            )
        known, step_back = rows.ids, 0
        offset += max(1, rows.length - overlap_of(rows.length))
    raise UnreadableAnswerError(
        f"the list has more than {page_limit} pages", operation_id=operation_id
    )
