"""Cursors of lists lead through them once, and are taken for nothing else."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from monitor.model.alerts import AlertState
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import LONGEST_PARAMETER, cursor_after, read_cursor, sort_text
from monitor.web.views.overview.pipeline_state import PipelineSort
from tests.web.site import Site

AT = datetime(2026, 11, 21, 10, 0, 0, 123_456, tzinfo=UTC)
NAIVE = "2026-01-01T00:00:00"
FIRST = "0001-01-01T00:00:00"


def encoded(value: Any) -> str:
    """Return what a client could take for a cursor of ours."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@given(
    at=st.datetimes(timezones=st.just(UTC)).filter(lambda at: 1 < at.year < 9999),
    number=st.integers(-(2**63), 2**63 - 1),
    text=st.text(max_size=30),
)
def test_a_key_comes_back_as_it_was(at: datetime, number: int, text: str) -> None:
    """Instants keep their microseconds, and texts may be anything."""
    cursor = cursor_after("runs", (at, number, text))
    assert read_cursor("runs", cursor, tuple[datetime, int, str]) == (at, number, text)
    assert cursor.replace("-", "").replace("_", "").isalnum()  # it fits a URL as it is


def test_a_cursor_leads_through_a_list_that_changes() -> None:
    """Each row that stays is shown once, whatever is added and removed between two pages."""
    rows = {(AT + timedelta(seconds=number // 2), str(number)) for number in range(10)}
    shown: list[tuple[datetime, str]] = []
    cursor: str | None = None
    while True:
        key = read_cursor("runs", cursor, tuple[datetime, str])
        page = sorted(row for row in rows if key is None or row > key)[:3]
        if not page:
            break
        shown += page
        cursor = cursor_after("runs", page[-1])
        rows -= {page[0], page[-1]}
        rows.add((AT - timedelta(seconds=len(shown)), "before all others"))
    assert [row_id for _, row_id in shown] == [str(number) for number in range(10)]


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "17",
        "%%%",
        "\N{SNOWMAN}",
        "A" * 400,
        base64.urlsafe_b64encode(b"[" * 300).decode(),
        encoded({"runs": 1}),
        encoded("runs"),
        encoded([]),
        encoded([["runs"], "2026-11-21T10:00:00Z", "1"]),
        encoded(["runs", "2026-11-21T10:00:00Z"]),
        encoded(["runs", "yesterday", "1"]),
        encoded(["runs", "2026-11-21T10:00:00Z", 1]),
        encoded(["runs", "2026-11-21T10:00:00", "1"]),
        encoded(["runs", "0001-01-01T00:00:00Z", "1"]),
        encoded(["runs", "9999-12-31T23:59:59Z", "1"]),
        cursor_after("runs", (AT, "1", "2")),
        cursor_after("alerts", (AT, "1")),
    ],
)
def test_a_text_that_is_no_cursor_of_a_list_is_refused(cursor: str) -> None:
    """Neither damage nor another list's cursor is an error of ours or the start of a list."""
    with pytest.raises(ProblemDetails) as raised:
        read_cursor("runs", cursor, tuple[datetime, str])
    assert raised.value.status == 400
    assert raised.value.detail == (
        f"cursor: {cursor[:40]!r} is not one of this list; leave it out to start at the beginning"
    )


@pytest.mark.parametrize(
    "letter", ["a", "\N{SNOWMAN}", "\U0001f600", "\x01", "\N{LATIN SMALL LETTER SHARP S}"]
)
def test_a_long_name_makes_no_long_cursor(letter: str) -> None:
    """A cursor of a list by name fits a parameter, whatever the names are."""
    key = ("w" * 63, sort_text(letter * 5_000), "9" * 40)
    assert len(cursor_after("pipelines by name", key)) <= LONGEST_PARAMETER


WORDS = st.text(max_size=8) | st.sampled_from(["acme", "flow", "plan", "job_group", "7", "\0"])
INSTANTS = st.sampled_from(
    ["2026-11-21T10:00:00Z", "2026-11-21T10:00:00", "0001-01-01T00:00:00", "0001-01-01T00:00:00Z",
     "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-11-21", "2026-11-21T24:00Z"]
)  # fmt: skip
NUMBERS = st.integers(-2, 3) | st.integers(-(10**320), 10**320) | st.floats()
PARTS = NUMBERS | INSTANTS | WORDS | st.none() | st.booleans() | st.lists(st.text(max_size=3))
RANKS = st.integers(-1, 3)
LISTS = st.sampled_from(
    [
        ("alerts by state", "/api/v1/alerts", st.tuples(RANKS, RANKS, INSTANTS, WORDS, INSTANTS)),
        ("runs by creation", "/api/v1/runs", st.tuples(WORDS, st.sampled_from([*RunKind]), WORDS)),
        ("runs of a pipeline by creation", "/api/v1/pipelines/acme/flow/7/runs",
         st.tuples(WORDS, st.sampled_from([*RunKind]), WORDS)),
        *((f"pipelines by {sort}", f"/api/v1/pipelines?sort={sort}",
           st.tuples(NUMBERS, WORDS, WORDS, WORDS, WORDS)) for sort in PipelineSort),
        ("schedules by name", "/api/v1/schedules/starts", st.tuples(WORDS, WORDS, WORDS, WORDS)),
    ]
)  # fmt: skip
CURSORS = LISTS.flatmap(
    lambda row: st.tuples(
        st.just(row[0]), st.just(row[1]), row[2].map(list) | st.lists(PARTS, max_size=6)
    )
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cursor=CURSORS)
@example(cursor=("alerts by state", "/api/v1/alerts", [2, 0, NAIVE, "x", NAIVE]))
@example(cursor=("alerts by state", "/api/v1/alerts", [0, 0, FIRST, "x", FIRST]))
async def test_no_key_in_a_cursor_is_a_failure(
    site: Site, cursor: tuple[str, str, list[Any]]
) -> None:
    """A cursor with any JSON for its key leads to a page of its list or to 400."""
    list_name, path, key = cursor
    open_alert = site.alerting.alert()
    ended = site.alerting.alert(state=AlertState.RESOLVED, ends_at=site.clock.now())
    site.alerting.show(open_alert)
    site.alerting.over = {ended.fingerprint: [ended]}
    if not site.live_state.pipeline_health:
        site.stand(Pipeline(kind=PipelineKind.FLOW, id="7", name="orders"), Status.FAILED)
        await site.observe(site.run())
    text = encoded([list_name, *key])[:LONGEST_PARAMETER]
    answer = await site.get(f"{path}{'&' if '?' in path else '?'}cursor={text}")
    assert answer.status in (200, 400)
