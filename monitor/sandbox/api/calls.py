"""The call that a handler is given, and the answer that it returns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from monitor.catalogue.operations import Edition, Operation
from monitor.sandbox.api.errors import Json, bad_field, forbidden, not_found
from monitor.sandbox.api.request.embedding import parse_embeds
from monitor.sandbox.api.request.listing import ListQuery, admit, column, read_list_query, select
from monitor.sandbox.api.request.parameters import INTEGER, Query
from monitor.sandbox.api.response.faults import FaultyLists
from monitor.sandbox.api.response.kinds import View
from monitor.sandbox.api.response.rendering import check, show
from monitor.sandbox.callbacks.deliveries import Deliveries
from monitor.sandbox.running.engine import Engine
from monitor.sandbox.world.records.objects import Person, Record
from monitor.sandbox.world.shelves import Shelf, World

T = TypeVar("T", bound=Record)

REMEMBERED_EXECUTION_IDS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer that is not an error. ``content`` is a body that is not JSON."""

    body: Json = None
    status: int = 200
    content: bytes | None = None
    content_type: str = "application/json"


NO_CONTENT = Reply(status=204, content=b"")
NOT_MODIFIED = Reply(status=304, content=b"")


class ExecutionIds:
    """The values of ``x-execution-id`` that started something; the oldest are forgotten."""

    def __init__(self, *, most: int = REMEMBERED_EXECUTION_IDS) -> None:
        self._remembered: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._most = most

    def knows(self, operation_id: str, execution_id: str) -> bool:
        return (operation_id, execution_id) in self._remembered

    def remember(self, operation_id: str, execution_id: str) -> None:
        """Keep an id; an empty one is none."""
        if not execution_id:
            return
        self._remembered[operation_id, execution_id] = None
        while len(self._remembered) > self._most:
            self._remembered.popitem(last=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What all requests share."""

    world: World
    engine: Engine
    deliveries: Deliveries
    edition: Edition
    faulty_lists: FaultyLists
    executions: ExecutionIds = field(default_factory=ExecutionIds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to one operation, from a person whom the workspace knows.

    ``body`` is None where none was sent, ``upload`` where no file was; its name is empty where it
    has none. ``base_url`` is the address that the caller used.
    """

    operation: Operation
    path_values: tuple[str, ...]
    query: Query
    body: Json
    upload: bytes | None
    upload_name: str
    execution_id: str
    base_url: str
    person: Person
    services: Services
    view: View

    @property
    def world(self) -> World:
        return self.services.world

    @property
    def engine(self) -> Engine:
        return self.services.engine

    def has_run_before(self) -> bool:
        """True when a request with the same ``x-execution-id`` has started this already."""
        return self.services.executions.knows(self.operation.operation_id, self.execution_id)

    def remember_run(self) -> None:
        """Let a repetition of this request answer 304."""
        self.services.executions.remember(self.operation.operation_id, self.execution_id)

    def list_query(self) -> ListQuery:
        """Return the validated query; parameters that the operation does not list are ignored.

        Raises:
            ApiError: 400, naming the first parameter that is wrong.
        """
        return read_list_query(self.operation, self.query)

    def thing(self, shelf: Shelf[T], kind: str) -> T:
        """Return the record that the path names by ``:id``.

        Deleted ones are found only by ``includeDeleted=true``, where the operation lists it.

        Raises:
            ApiError: 400 when the id is no number, 404 when there is no such record, 403 when
                it is hidden from the caller.
        """
        found = shelf.get(self.path_id(), with_deleted=self.list_query().include_deleted)
        if found is None:
            raise not_found(kind, self.path_values[0])
        self.require_sight(found, kind)
        return found

    def require_sight(self, record: Record, kind: str) -> None:
        """Let only those on with whom the flow or plan is shared that a record belongs to.

        Raises:
            ApiError: 403.
        """
        if self.view.is_hidden(record):
            raise forbidden(f"You do not have access to {kind} {self.path_values[0]}")

    def path_id(self) -> int:
        """Return the path's ``:id``.

        Raises:
            ApiError: 400 when it is no number.
        """
        text = self.path_values[0]
        if not INTEGER.fullmatch(text):
            raise bad_field("id", "must be an integer")
        return int(text)

    def show(self, kind: str, record: Record, *, extra: Mapping[str, Json] | None = None) -> Reply:
        """Return one record, with ``fields`` and ``embed`` of the query.

        Raises:
            ApiError: 400, when a field or an association does not exist.
        """
        query = self.list_query()
        document = show(
            self.view,
            kind,
            record,
            fields=query.fields,
            embeds=parse_embeds(query.embeds),
            extra=extra,
        )
        return Reply(body=document)

    def list(
        self,
        kind: str,
        rows: Iterable[T],
        *,
        filter_fields: Sequence[str] = ("name",),
        extra: Callable[[T], Mapping[str, Json]] | None = None,
    ) -> Reply:
        """Return the page of ``rows`` that the query selects, in the order handed in.

        ``extra`` gives fields of a row that only this operation shows.

        Raises:
            ApiError: 400, naming the parameter that is wrong.
        """
        query = self.list_query()
        embeds = parse_embeds(query.embeds)
        check(self.view.table, kind, embeds=embeds)
        faults = self.services.faulty_lists
        selection = select(
            faults.visible(rows),
            faults.requested(self.operation, query),
            self.view.table[kind].columns_of(self.view),
            default_filter_fields=filter_fields,
        )
        page = [
            show(
                self.view,
                kind,
                row,
                fields=query.fields,
                embeds=embeds,
                extra=None if extra is None else extra(row),
            )
            for row in selection.page
        ]
        body: dict[str, Json] = {"data": faults.shown(self.operation, query, page)}
        if selection.count is not None and query.include_count:
            body["count"] = faults.count(self.operation, selection.count)
        return Reply(body=body)

    def count(
        self,
        kind: str,
        rows: Iterable[T],
        *,
        filter_fields: Sequence[str] = ("name",),
    ) -> Reply:
        """Return how many of ``rows`` the query selects, whatever its page.

        Raises:
            ApiError: 400, naming the parameter that is wrong.
        """
        found = sum(1 for _ in self.admitted(kind, rows, filter_fields=filter_fields))
        return Reply(body={"count": self.services.faulty_lists.count(self.operation, found)})

    def admitted(
        self,
        kind: str,
        rows: Iterable[T],
        *,
        filter_fields: Sequence[str] = ("name",),
    ) -> Iterator[T]:
        """Go over the rows that the query selects, whatever its page.

        Raises:
            ApiError: 400, naming the parameter that is wrong.
        """
        query = self.list_query()
        columns = self.view.table[kind].columns_of(self.view)
        for name, _ in query.sort:
            column(columns, name, parameter="sort")
        check(self.view.table, kind, embeds=parse_embeds(query.embeds))
        return admit(
            self.services.faulty_lists.visible(rows),
            query,
            columns,
            default_filter_fields=filter_fields,
        )


def all_of(rows: Sequence[Json]) -> Reply:
    """Return a list that has no pages, in the usual envelope."""
    return Reply(body={"data": list(rows)})


Handler = Callable[[Call], Reply | Awaitable[Reply]]
Handlers = Mapping[str, Handler]
