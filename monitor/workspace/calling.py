"""Any of the catalogue's operations: by id or by method and path, as one answer, rows or a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct

from monitor.catalogue.operations import METHODS, Operation, find, operation, operations
from monitor.model.errors import RequestRejectedError, UnreadableAnswerError
from monitor.model.suggestions import did_you_mean
from monitor.workspace.decoding import RowKind, Rows, decode_rows
from monitor.workspace.files import FileReceiver, OnProgress
from monitor.workspace.list_reads import ListReader, PageLengths, RequestPage, is_end, read_pages
from monitor.workspace.payloads import Page
from monitor.workspace.priority import Priority
from monitor.workspace.requester import Answer, Requester, reading
from monitor.workspace.specification import operations_in
from monitor.workspace.transport import QueryValue

_LONGEST_NUMBER = 10


class Called(Struct, frozen=True, kw_only=True):
    """One operation of the catalogue with the values of its path's parameters."""

    operation: Operation
    values: tuple[str, ...]


def resolve(words: Sequence[str]) -> Called:
    """Read ``getFlow 11``, ``GET /v4/flows/11`` or, without the ``/v4``, ``GET flows/11``.

    Raises:
        RequestRejectedError: they name no operation, or not with as many values as it takes.
    """
    first, *rest = words
    if first.upper() in METHODS:
        if len(rest) != 1:
            raise RequestRejectedError(f"{first.upper()} takes one path, such as /v4/flows")
        return _by_path(first.upper(), rest[0])
    try:
        named = operation(first)
    except KeyError as exc:
        hint = did_you_mean(first, [known.operation_id for known in operations()], most=3)
        raise RequestRejectedError(
            f"{first!r} is neither a method nor one of the catalogue's operations{hint}"
        ) from exc
    return _with_values(named, tuple(rest))


def _by_path(method: str, path: str) -> Called:
    if "?" in path or "#" in path:
        raise RequestRejectedError("a path holds no query: give each parameter with -q NAME=VALUE")
    whole = "/" + path.strip("/")
    if not whole.startswith("/v4/"):
        whole = "/v4" + whole
    match = find(method, whole)
    if match is None:
        others = [other for other in METHODS if find(other, whole) is not None]
        hint = f"; it has {', '.join(others)}" if others else ""
        raise RequestRejectedError(f"the catalogue has no {method} {whole}{hint}")
    named, values = match
    return _with_values(named, tuple(unquote(value) for value in values))


def _with_values(operation: Operation, values: tuple[str, ...]) -> Called:
    names = operation.parameters
    if len(values) != len(names):
        takes = " ".join(names) or "nothing"
        raise RequestRejectedError(
            f"{operation.operation_id} takes {takes} after its name, not {len(values)} values",
            operation_id=operation.operation_id,
        )
    for name, value in zip(names, values, strict=True):
        if value in {"", ".", ".."} or value.startswith((":", "{")):
            raise RequestRejectedError(
                f"{value!r} is no {name} of {operation.operation_id}:"
                " put the real one in its place",
                operation_id=operation.operation_id,
            )
    return Called(operation=operation, values=values)


class OperationCaller:
    """Calls operations that have no typed read of their own."""

    def __init__(self, requester: Requester, lists: ListReader) -> None:
        self._requester = requester
        self._lists = lists

    async def open_api_spec(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> frozenset[tuple[str, str]]:
        """Read which methods and paths the served document names; see `operations_in`."""
        answer = await self._requester.request(
            "getOpenApiSpec", priority=priority, wait_seconds=wait_seconds
        )
        with reading("getOpenApiSpec"):
            return operations_in(answer.body)

    async def download(
        self,
        operation_id: str,
        *path_values: object,
        into: Path,
        query: Mapping[str, QueryValue] | None = None,
        on_progress: OnProgress | None = None,
        priority: Priority,
        wait_seconds: float = 30.0,
    ) -> Answer:
        """Write the answer's body to a file, which appears when it is whole; see `FileReceiver`.

        Raises:
            WorkspaceError: as `request`; nothing is left behind.
            LocalFileError: the file cannot be written.
        """
        async with FileReceiver(into, on_progress=on_progress) as receiver:
            return await self._requester.request(
                operation_id,
                *path_values,
                query=query,
                receiver=receiver,
                priority=priority,
                wait_seconds=wait_seconds,
            )

    async def rows(
        self,
        operation_id: str,
        *path_values: object,
        query: Mapping[str, QueryValue] | None = None,
        priority: Priority,
        wait_seconds: float = 30.0,
    ) -> AsyncGenerator[bytes]:
        """Yield every row of a list once, each as JSON; a page is requested when it is needed.

        ``limit`` in the query is the length of a page, ``offset`` where the first one begins. A
        list that the catalogue gives no pages is requested once. Where ``fields`` leaves the ids
        out, a list that changes while it is read may repeat rows or miss some.

        Raises:
            RequestRejectedError: the operation is no list, or as `request`.
            UnreadableAnswerError: the answer is none, or the list has no end; see `read_pages`.
        """
        called = operation(operation_id)
        if called.method != "GET" or called.path.endswith("/count") or called.answers_file:
            raise RequestRejectedError(f"{operation_id} is no list", operation_id=operation_id)
        filters = dict(query or {})
        is_paged = "limit" in called.query
        size = _whole_number(filters.pop("limit", self._requester.settings.page_size), "limit")
        start = _whole_number(filters.pop("offset", 0), "offset")

        async def request_page(limit: int, offset: int) -> tuple[Rows[Raw], datetime | None]:
            place = {"limit": limit, "offset": start + offset} if is_paged else {}
            answer = await (self._lists.request_sorted if is_paged else self._requester.request)(
                operation_id,
                *path_values,
                query={**place, **filters},
                priority=priority,
                wait_seconds=wait_seconds,
            )
            with reading(operation_id):
                rows = decode_rows(answer.body, _ROW, most_rows=limit if is_paged else None)
            # A count is of the whole list, and the pages are read as if they began it.
            count = None if rows.count is None else max(0, rows.count - start)
            return msgspec.structs.replace(rows, count=count), answer.began_at

        reads = read_pages if is_paged and _shows_ids(filters) else _read_in_steps
        pages = reads(
            request_page,
            page_size=size,
            page_limit=self._requester.settings.page_limit if is_paged else 1,
            operation_id=operation_id,
        )
        async for row in _each_once(pages):
            yield row


_ROW: RowKind[Raw] = RowKind(Raw, lambda row: row)


class _Identity(Struct, rename="camel"):
    """What distinguishes one row from all others; lists of two kinds may use an id for each."""

    id: int | str
    type: object = None
    created_at: str | None = None


_IDENTITY = msgspec.json.Decoder(_Identity)


async def _each_once(pages: AsyncIterator[Page[Raw]]) -> AsyncIterator[bytes]:
    """Yield the rows without those that pages repeat; a row without an id is never left out."""
    identities: set[int] = set()
    async for page in pages:
        for row in page.rows:
            text = bytes(row)
            identity = _identity(text)
            if identity in identities:
                continue
            if identity is not None:
                identities.add(identity)
            yield text


def _identity(row: bytes) -> int | None:
    """Return what stays the same when a row is met again, None where nothing is sure to.

    A hash, since one for each row of a long list must be kept.
    """
    try:
        row_identity = _IDENTITY.decode(row)
    except msgspec.MsgspecError:
        return None
    if row_identity.created_at is None:
        return hash(row)
    return hash((str(row_identity.id), str(row_identity.type), row_identity.created_at))


async def _read_in_steps(
    request_page: RequestPage[Raw], *, page_size: int, page_limit: int, operation_id: str
) -> AsyncIterator[Page[Raw]]:
    """Yield page after page, trusting the list to stand still; one page where that is all."""
    offset, lengths = 0, PageLengths()
    before: list[bytes] = []
    for number in range(1, page_limit + 1):
        rows, began_at = await request_page(page_size, offset)
        lengths.remember(rows.length)
        shown = [bytes(row) for row in rows.rows]
        if shown and shown == before and rows.length < page_size:
            # Rows that are alike, or a list that takes no offset: that shows rows after any end.
            far, _ = await request_page(page_size, page_size * page_limit)
            if far.length:
                return
        before = shown
        yield Page(rows=rows.rows, bad_rows=rows.bad_rows, began_at=began_at, number=number)
        if page_limit == 1 or is_end(
            rows, size=page_size, offset=offset, count=rows.count, lengths=lengths
        ):
            return
        offset += rows.length
    raise UnreadableAnswerError(
        f"the list has more than {page_limit} pages", operation_id=operation_id
    )


def _shows_ids(query: Mapping[str, QueryValue]) -> bool:
    return "fields" not in query or "id" in _only(query["fields"]).split(";")


def _only(value: QueryValue) -> str:
    """Return the value of a parameter that counts once; the last one, as servers take it."""
    return str(value if isinstance(value, str | int) else value[-1])


def _whole_number(value: QueryValue, name: str) -> int:
    text = _only(value)
    if not (text.isascii() and text.isdigit() and len(text) < _LONGEST_NUMBER):
        raise RequestRejectedError(f"{name} is no whole number: {text[:40]!r}")
    return int(text)
