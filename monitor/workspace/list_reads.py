"""Lists, requested in pages of our own size and in the order of their ids; see `paging`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import TypeVar

from monitor.model.errors import RequestRejectedError
from monitor.workspace.decoding import IsKnown, RowKind, Rows, decode_page
from monitor.workspace.paging import PageLengths, read_pages
from monitor.workspace.payloads import Page
from monitor.workspace.priority import Priority
from monitor.workspace.request_parts import QueryValue
from monitor.workspace.requester import Answer, Requester, reading

T = TypeVar("T")


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

        In ascending ids, with ``newest_first`` in descending ones.
        """

        async def request_page(limit: int, offset: int) -> tuple[Rows[T], datetime | None]:
            answer = await self._request_page(
                operation_id,
                {"limit": limit, "offset": offset, **query},
                is_counted=offset == 0,
                newest_first=newest_first,
                priority=priority,
                wait_seconds=wait_seconds,
            )
            rows = await listed(answer, kind, operation_id, is_known=is_known)
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
    answer: Answer, kind: RowKind[T], operation_id: str, *, is_known: IsKnown | None = None
) -> Rows[T]:
    """Read an answer that is one page of a list.

    Raises:
        UnreadableAnswerError: it is no list; a row that cannot be read is a bad row instead.
    """
    with reading(operation_id):
        return await decode_page(answer.body, kind, is_known=is_known)
