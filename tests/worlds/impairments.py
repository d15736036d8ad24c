"""How a workspace hides what it has: lists refused or shortened, rights changed. Pure data."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Span(Struct, frozen=True):
    """A span of time, in seconds since the world's beginning."""

    begin: float
    end: float


class ListName(StrEnum):
    """The lists that the daemon reads, by their path."""

    JOB_GROUPS = "jobLibrary"
    PLAN_RUNS = "planSnapshotRuns"
    FLOWS = "flows"
    PLANS = "plans"
    SCHEDULES = "schedules"


class QueryKind(StrEnum):
    """What a request for a list asks for, by its query."""

    CHANGES = "changes"  # written since a time
    STATUS = "status"  # of one status
    CREATED = "created"  # created since a time
    ALL = "all"


class Refusal(StrEnum):
    """How a workspace refuses a read."""

    FORBIDDEN = "403"
    NO_ROUTE = "404 RouteNotFoundException"
    NO_DATA = "404 DataNotFoundException"
    GONE = "410"


class Withdrawal(Struct, frozen=True, kw_only=True):
    """Lists that are refused for a while or for good.

    ``with_objects``: whatever has an id is refused too, and who the token belongs to.
    """

    span: Span
    lists: frozenset[ListName]
    refusal: Refusal
    with_objects: bool = False


class ShortList(Struct, frozen=True, kw_only=True):
    """A list that lacks rows in some of its queries; each object can still be read by its id."""

    span: Span
    list_name: ListName
    queries: frozenset[QueryKind]
    share_kept: float  # of the rows; 0: the list is empty


class Hiding(Struct, frozen=True, kw_only=True):
    """Flows and their runs that no list shows, and that are refused by id; None: every run."""

    span: Span
    flows: frozenset[int] | None
    refusal: Refusal


class ClockSet(Struct, frozen=True, kw_only=True):
    """A clock that is set at a time, by so many seconds; below 0: back."""

    at: float
    seconds: float
