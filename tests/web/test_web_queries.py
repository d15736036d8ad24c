"""Parameters of a URL: parsed into a struct by its types, or refused by name."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct

from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import parse_query, url_of


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class ThingsQuery(Struct, frozen=True, kw_only=True):
    workspace: str
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    size: Size | None = None
    sort: Literal["name", "age"] = "name"
    since: datetime | None = None
    folded: bool = False


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("limit=many", "limit: 'many' is not a number from 1 to 1000"),
        ("limit=0", "limit: '0' is not a number from 1 to 1000"),
        ("limit=1001", "limit: '1001' is not a number from 1 to 1000"),
        ("size=medium", "size: 'medium' is none of small, large"),
        ("sort=size", "sort: 'size' is none of age, name"),
        ("folded=maybe", "folded: 'maybe' is neither true nor false"),
        ("since=today", "since: 'today' is not an ISO 8601 instant"),
        ("since=17", "since: '17' is not an ISO 8601 instant"),
        ("since=2026-11-21T10:00", "since: '2026-11-21T10:00' names no time zone; add Z or an"),
        ("workspace=x", "query: 'workspace' is not known; known: folded, limit, since, size, sort"),
        ("limits=1", "query: 'limits' is not known; did you mean limit?"),
        ("limit=1&limit=2", "limit: is given twice"),
        (f"size={'x' * 501}", "size: is longer than 500 characters"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_those_that_do(query: str, problem: str) -> None:
    """A reader knows which parameter to change, and to what."""
    pairs = [part.split("=") for part in query.split("&")]
    with pytest.raises(ProblemDetails) as raised:
        parse_query(ThingsQuery, {"workspace": "acme"}, [(name, text) for name, text in pairs])
    assert raised.value.status == 400
    assert raised.value.detail.startswith(problem)


def test_a_query_is_written_as_it_is_parsed() -> None:
    """A link leads to what was asked for; what equals its default is left out."""
    query = ThingsQuery(
        workspace="acme", size=Size.LARGE, folded=True, since=datetime(2026, 11, 21, 10, tzinfo=UTC)
    )
    url = url_of("/things/{workspace}", query)
    assert url == "/things/acme?size=large&since=2026-11-21T10%3A00%3A00%2B00%3A00&folded=true"
    sent = [("size", "large"), ("since", "2026-11-21T10:00:00+00:00"), ("folded", "true")]
    assert parse_query(ThingsQuery, {"workspace": "acme"}, [*sent, ("limit", "")]) == query
