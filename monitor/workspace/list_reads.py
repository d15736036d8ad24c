"""Reads lists in pages until their end, without ever skipping a row that stays in it.

Pages are cut by position, so they shift when the list changes while it is read. We request
ascending ids: a new row then stands at the end and is read too, and a row that enters at a place
already read (an old run that was just changed) moves the others back, which only repeats some.
Descending ids show the newest rows first: a new row stands before all others and only moves them
back; like a row that changes meanwhile, it belongs to the next reading.
The danger is a row that leaves (its status no longer matches, it was deleted): the rest moves
forward, and the first row of the next page would be skipped. So pages overlap, and a page counts
only when it shows a row of the page before: ids do not change, hence nothing between the two was
lost. Without such a row the reading steps back until it finds one.

Where a workspace does not sort by id, the order is most likely newest change first: a row that
changes goes to the front, unread perhaps, but its change is later than the beginning of the
reading, and so belongs to the next reading.

A page shorter than our limit is the end, unless workspace or proxy has a limit of its own. The
count that the first page carries tells. Where none comes, or one of that page alone, that limit can
be no smaller than the longest page that was lately shown: a shorter page is the end, and after any
other the next place is asked for.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import TypeVar

from monitor.model.errors import RequestRejectedError, UnreadableAnswerError
from monitor.workspace.decoding import MOST_ROWS, IsKnown, RowKind, Rows, decode_page
from monitor.workspace.payloads import Page
from monitor.workspace.priority import Priority
from monitor.workspace.requester import Answer, Requester, reading
from monitor.workspace.transport import QueryValue

T = TypeVar("T")
_LONGEST_OVERLAP = 10
_LARGEST_PAGE = 1000  # the only published maximum
_SMALLEST_CAP = 10  # the smallest published default: whatever caps pages lower is not suspected
_REMEMBERED_PAGES = 50  # a cap that is new is suspected when the longer ones are forgotten
_NAMELESS_PAGES = 5  # in a row
_SHIFTS_ALLOWED = 5  # rows that enter before a page may repeat it a few times


RequestPage = Callable[[int, int], Awaitable[tuple[Rows[T], datetime | None]]]


class PageLengths:
    """How long the last pages of one list were, whatever was asked of it."""

    def __init__(self) -> None:
        self._lengths: deque[int] = deque(maxlen=_REMEMBERED_PAGES)

    def remember(self, length: int) -> None:
        self._lengths.append(length)

    def may_be_cut(self, length: int) -> bool:
        """True where a cap may have ended a page of so many rows: no longer one was shown."""
        return length >= max(_SMALLEST_CAP, max(self._lengths, default=0))


def overlap_of(length: int) -> int:
    """Return how many rows of a page of that length the next page shall show again."""
    return min(_LONGEST_OVERLAP, max(1, length // 5))


def is_end(
    page: Rows[T], *, size: int, offset: int, count: int | None, lengths: PageLengths
) -> bool:
    """True when nothing follows a page that brings news, the last that ``lengths`` has.

    ``count`` is that of the whole list. It may be wrong: it is believed as far as pages bring more,
    and no longer where they have brought more than it counts. One that counts just the first page
    may be of that page alone.
    """
    if page.length == 0:
        return True
    if page.length >= size:
        return False
    if count is not None and count >= offset + page.length and (offset or count > page.length):
        return count == offset + page.length
    return not lengths.may_be_cut(page.length)


async def read_pages(
    request_page: RequestPage[T],
    *,
    page_size: int,
    page_limit: int,
    operation_id: str,
    lengths: PageLengths | None = None,
) -> AsyncIterator[Page[T]]:
    """Yield the pages of a list; rows may come more than once.

    ``request_page`` takes limit and offset. ``lengths`` are those of earlier readings, to which
    those of this one are added.

    Raises:
        UnreadableAnswerError: the list does not advance, or has more than ``page_limit`` pages.
    """
    size = min(max(2, page_size), _LARGEST_PAGE)
    offset, step_back, idle = 0, 0, 0
    known: frozenset[str] = frozenset()  # ids of the last page that joins up with the first
    count: int | None = None
    lengths = lengths or PageLengths()
    for number in range(1, page_limit + 1):
        rows, began_at = await request_page(size, offset)
        lengths.remember(rows.length)
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
        is_repeated = rows.length < size and not brings_news
        if is_repeated or is_end(rows, size=size, offset=offset, count=count, lengths=lengths):
            return
        idle = 0 if brings_news else idle + 1
        if idle >= _SHIFTS_ALLOWED:
            raise UnreadableAnswerError(
                "the list shows the same page at every offset", operation_id=operation_id
            )
        known, step_back = rows.ids, 0
        offset += max(1, rows.length - overlap_of(rows.length))
    raise UnreadableAnswerError(
        f"the list has more than {page_limit} pages", operation_id=operation_id
    )


class ListReader:
    """Reads lists of one workspace, and remembers what each of them refuses of our requests."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester
        # Ids of operations; what they refuse is not requested again.
        self._unsorted: set[str] = set()
        self._uncounted: set[str] = set()
        self._lengths: defaultdict[str, PageLengths] = defaultdict(PageLengths)

    def pages(
        self,
        operation_id: str,
        kind: RowKind[T],
        query: Mapping[str, QueryValue],
        priority: Priority,
        wait_seconds: float,
        *,
        is_known: IsKnown | None = None,
        newest_first: bool = False,
    ) -> AsyncIterator[Page[T]]:
        """Read a list page by page; see `read_pages`. ``is_known``: see `decode_page`.

        In ascending ids, with ``newest_first`` in descending ones. A list is unreadable too where
        some pages in a row have no id: nothing would show that it advances.
        """
        nameless = 0

        async def request_page(limit: int, offset: int) -> tuple[Rows[T], datetime | None]:
            nonlocal nameless
            answer = await self._request_page(
                operation_id,
                {"limit": limit, "offset": offset, **query},
                is_counted=offset == 0,
                newest_first=newest_first,
                priority=priority,
                wait_seconds=wait_seconds,
            )
            rows = await listed(answer, kind, operation_id, most_rows=limit, is_known=is_known)
            nameless = 0 if rows.ids else nameless + 1
            if nameless >= _NAMELESS_PAGES:
                raise UnreadableAnswerError(
                    f"the list has no id on {nameless} pages", operation_id=operation_id
                )
            return rows, answer.began_at

        return read_pages(
            request_page,
            page_size=self._requester.settings.page_size,
            page_limit=self._requester.settings.page_limit,
            operation_id=operation_id,
            lengths=self._lengths[operation_id],
        )

    async def _request_page(
        self,
        operation_id: str,
        query: Mapping[str, QueryValue],
        *,
        is_counted: bool,
        newest_first: bool,
        priority: Priority,
        wait_seconds: float,
    ) -> Answer:
        """Request a page, with the count of the whole list unless the workspace refuses that."""
        if is_counted and operation_id not in self._uncounted:
            try:
                return await self.request_sorted(
                    operation_id,
                    query={"includeCount": "true", **query},
                    newest_first=newest_first,
                    priority=priority,
                    wait_seconds=wait_seconds,
                )
            except RequestRejectedError as error:
                if error.status_code != HTTPStatus.BAD_REQUEST:
                    raise
        answer = await self.request_sorted(
            operation_id,
            query=query,
            newest_first=newest_first,
            priority=priority,
            wait_seconds=wait_seconds,
        )
        if is_counted:
            self._uncounted.add(operation_id)
        return answer

    async def request_sorted(
        self,
        operation_id: str,
        *path_values: object,
        query: Mapping[str, QueryValue],
        newest_first: bool = False,
        priority: Priority,
        wait_seconds: float,
    ) -> Answer:
        """Request a page in the order of ids, unless the query names an order of its own.

        Where the workspace refuses that, its own order is taken from then on.
        """
        if operation_id not in self._unsorted and "sort" not in query:
            try:
                return await self._requester.request(
                    operation_id,
                    *path_values,
                    query={"sort": "-id" if newest_first else "id", **query},
                    priority=priority,
                    wait_seconds=wait_seconds,
                )
            except RequestRejectedError as error:
                if error.status_code != HTTPStatus.BAD_REQUEST:
                    raise
        answer = await self._requester.request(
            operation_id, *path_values, query=query, priority=priority, wait_seconds=wait_seconds
        )
        if "sort" not in query:
            self._unsorted.add(operation_id)
        return answer


async def listed(
    answer: Answer,
    kind: RowKind[T],
    operation_id: str,
    *,
    most_rows: int = MOST_ROWS,
    is_known: IsKnown | None = None,
) -> Rows[T]:
    """Read an answer that is one page of a list; ``most_rows`` is the limit that was requested.

    Raises:
        UnreadableAnswerError: it is no list, or has more rows; a row that cannot be read is a bad
            row instead.
    """
    with reading(operation_id):
        return await decode_page(answer.body, kind, most_rows=most_rows, is_known=is_known)
