"""The query of a list operation, and the rows that it selects."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from msgspec import Struct

from monitor.catalogue.operations import Operation
from monitor.sandbox.api.errors import bad_parameter
from monitor.sandbox.api.request.parameters import (
    INTEGER,
    Query,
    boolean,
    integer,
    names,
    word,
    words,
)

T = TypeVar("T")
Scalar = str | int | float | bool | datetime | None
Columns = Mapping[str, Callable[[T], Scalar]]

DEFAULT_LIMIT = 25
DEFAULT_SCHEDULE_LIMIT = 10
LARGEST_SCHEDULE_LIMIT = 1000
STATUSES = ("Created", "InProgress", "Complete", "Failed", "Canceled")
RAN_FROM = ("ui", "schedule", "api")
RAN_FOR = (
    "recipe",
    "sampling",
    "pendingDatasource",
    "plan",
    "extract",
    "profile",
    "publish",
    "refresh",
)
FILTER_TYPES = ("fuzzy", "contains", "exact", "exactIgnoreCase")
SCOPES = ("all", "shared", "owned")
DATE_LIMIT = re.compile(r"dateFilter\[(createdAt|updatedAt)\]\[(gte|gt|lte|lt)\]")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What a date can be at all.
EARLIEST_SECONDS = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
LATEST_SECONDS = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)


class DateLimit(Struct, frozen=True):
    """One bound of ``dateFilter``: rows from ``instant`` on, or only those before it."""

    field: str
    instant: datetime
    is_lower: bool

    def admits(self, value: datetime) -> bool:
        return (value >= self.instant) is self.is_lower


def date_limit(field: str, comparison: str, milliseconds: int) -> DateLimit:
    """Return the bound that a comparison with epoch milliseconds sets."""
    # The workspace keeps seconds, so that what a row shows and what selects it agree: a row of
    # 10:00:00.7 counts as 10:00:00. Hence the bound is a whole second, rounded up.
    seconds = -(-milliseconds // 1000)
    if comparison in {"gt", "lte"}:
        seconds = milliseconds // 1000 + 1
    instant = EPOCH + timedelta(seconds=max(EARLIEST_SECONDS, min(seconds, LATEST_SECONDS)))
    return DateLimit(field, instant, comparison in {"gte", "gt"})


class ListQuery(Struct, frozen=True, kw_only=True):
    """A list operation's query, validated. Empty sets and texts select everything."""

    limit: int | None  # None for all, where there are no pages
    offset: int
    sort: tuple[tuple[str, bool], ...]  # column, descending
    filter_text: str
    filter_fields: tuple[str, ...]
    filter_type: str
    fields: tuple[str, ...]
    embeds: tuple[str, ...]
    include_count: bool
    include_deleted: bool
    dates: tuple[DateLimit, ...]
    statuses: frozenset[str]
    ran_from: frozenset[str]
    ran_for: frozenset[str]
    run_by_all: bool
    scope: str


class Selection(Struct, Generic[T], frozen=True):
    """One page of the selected rows, and how many there are on all pages, if that was requested."""

    page: Sequence[T]
    count: int | None


def read_list_query(operation: Operation, query: Query) -> ListQuery:
    """Validate the query of a list or count operation, parameter by parameter.

    Raises:
        ApiError: 400, naming the first parameter that is wrong.
    """
    query_values = query.only(operation.query)
    schedules = operation.resource == "Schedule"
    return ListQuery(
        limit=integer(
            query_values,
            "limit",
            DEFAULT_SCHEDULE_LIMIT if schedules else DEFAULT_LIMIT,
            least=1,
            most=LARGEST_SCHEDULE_LIMIT if schedules else None,
        )
        if "limit" in operation.query and not boolean(query_values, "noLimit")
        else None,
        offset=integer(query_values, "offset", 0),
        sort=read_sort(query_values.get("sort")),
        filter_text=query_values.get("filter"),
        filter_fields=names(query_values.get("filterFields")),
        filter_type=word(query_values, "filterType", FILTER_TYPES, default="fuzzy"),
        fields=names(query_values.get("fields")),
        embeds=tuple(query_values.all("embed")),
        include_count=boolean(query_values, "includeCount"),
        include_deleted=boolean(query_values, "includeDeleted"),
        dates=tuple(_dates(query_values)),
        statuses=words(query_values, "status", STATUSES),
        ran_from=words(query_values, "ranfrom", RAN_FROM),
        ran_for=words(query_values, "ranfor", RAN_FOR),
        run_by_all=word(query_values, "runBy", ("all", "currentUser")) == "all",
        scope=_scope(operation, query),
    )


def read_sort(text: str) -> tuple[tuple[str, bool], ...]:
    """Return the columns of ``sort`` with their direction; a minus means descending."""
    return tuple((part[part[0] in "+-" :], part.startswith("-")) for part in names(text))


def _scope(operation: Operation, query: Query) -> str:
    if "flowsFilter" in operation.query:
        return word(query, "flowsFilter", SCOPES, default="owned")
    if "ownershipFilter" in operation.query:
        # Google's product calls the same parameter plansFilter.
        older = word(query, "plansFilter", SCOPES, default="owned")
        return word(query, "ownershipFilter", SCOPES, default=older)
    return "all"


def _dates(query: Query) -> Iterable[DateLimit]:
    for name, text in query.items():
        if not name.startswith("dateFilter"):
            continue
        limit = DATE_LIMIT.fullmatch(name)
        if limit is None or not INTEGER.fullmatch(text):
            raise bad_parameter(
                name, text, "dateFilter[createdAt|updatedAt][gte|gt|lte|lt] in epoch milliseconds"
            )
        yield date_limit(limit.group(1), limit.group(2), int(text))


def select(
    rows: Iterable[T],
    query: ListQuery,
    columns: Columns[T],
    *,
    default_filter_fields: Sequence[str] = ("name",),
) -> Selection[T]:
    """Return the page of ``rows`` that the query requests; without ``sort``, in their order.

    In their own order no more rows are looked at than the page needs, unless they are counted.

    Raises:
        ApiError: 400, when ``sort`` or ``filterFields`` names no column.
    """
    admitted = admit(rows, query, columns, default_filter_fields=default_filter_fields)
    end = None if query.limit is None else query.offset + query.limit
    if not query.sort and not query.include_count:
        page = list(itertools.islice(admitted, query.offset, end))
        return Selection(page, None)
    found = sort_rows(list(admitted), query.sort, columns)
    return Selection(found[query.offset : end], len(found))


def admit(
    rows: Iterable[T],
    query: ListQuery,
    columns: Columns[T],
    *,
    default_filter_fields: Sequence[str] = ("name",),
) -> Iterator[T]:
    """Go over the rows that the query's filters let through.

    Raises:
        ApiError: 400, when ``filterFields`` names no column.
    """
    fields = query.filter_fields or tuple(default_filter_fields)
    filters = [column(columns, field, parameter="filterFields") for field in fields]
    tests = [*_tests(query, columns)]
    if query.filter_text:

        def fits(row: T) -> bool:
            return any(matches(read(row), query.filter_text, query.filter_type) for read in filters)

        tests.append(fits)
    return (row for row in rows if all(test(row) for test in tests))


def _tests(query: ListQuery, columns: Columns[T]) -> Iterator[Callable[[T], bool]]:
    words_by_column = {
        "status": query.statuses,
        "ranfrom": query.ran_from,
        "ranfor": query.ran_for,
    }
    for name, expected in words_by_column.items():
        if expected:
            yield functools.partial(_is_one_of, columns[name], expected)
    for limit in query.dates:
        yield functools.partial(_is_within, columns[limit.field], limit)


def _is_one_of(read: Callable[[T], Scalar], expected: frozenset[str], row: T) -> bool:
    return read(row) in expected


def _is_within(read: Callable[[T], Scalar], limit: DateLimit, row: T) -> bool:
    value = read(row)
    return isinstance(value, datetime) and limit.admits(value)


def sort_rows(rows: list[T], sort: Sequence[tuple[str, bool]], columns: Columns[T]) -> list[T]:
    """Return the rows in the requested order; absent values come first.

    Raises:
        ApiError: 400, when ``sort`` names no column.
    """
    for name, descending in reversed(sort):
        read = column(columns, name, parameter="sort")

        def rank(row: T, read: Callable[[T], Scalar] = read) -> tuple[bool, Scalar]:
            value = read(row)
            return (value is not None, 0 if value is None else value)

        rows = sorted(rows, key=rank, reverse=descending)
    return rows


def column(columns: Columns[T], name: str, *, parameter: str) -> Callable[[T], Scalar]:
    """Return what reads one column.

    Raises:
        ApiError: 400, naming the parameter.
    """
    if name not in columns:
        raise bad_parameter(parameter, name, f"one of {', '.join(sorted(columns))}")
    return columns[name]


def matches(value: Scalar, expected: str, filter_type: str) -> bool:
    """True when a column's value fits the filter; fuzzy means: its letters, in that order."""
    if value is None:
        return False
    text = str(value)
    match filter_type:
        case "exact":
            return text == expected
        case "exactIgnoreCase":
            return text.casefold() == expected.casefold()
        case "contains":
            return expected.casefold() in text.casefold()
        case _:
            letters = iter(text.casefold())
            return all(letter in letters for letter in expected.casefold())
