"""No answer of the server holds the event loop, however much there is."""

from __future__ import annotations

import asyncio

import pytest

from monitor.bus.contract import Change
from monitor.model.runs import Status
from tests.full_size import (
    LINES_IN_A_STEP,
    counting_steps,
    fill,
    firing,
)
from tests.outputs.histories import run_event
from tests.web.site import Site


@pytest.fixture
def large_site(site: Site) -> Site:
    """Return the server of a workspace with all the pipelines, runs and alerts."""
    now = site.clock.now()
    fill(site.live_state, "acme", now=now)
    site.alerting.snapshot = firing("acme", now=now)
    return site


_ANSWERS = (
    ("/?groups=200&limit=200&runs=500", b"<tr", 200 + 500),
    ("/?q=flow&sort=name", b"<tr", 50),
    ("/api/v1/pipelines?limit=200", b'"owner"', 200),
    ("/api/v1/running?runs=500", b'"percent_complete"', 500),
    ("/api/v1/attention?groups=500", b'"severity"', 2 * 500),
    ("/api/v1/status", b'"healthy":5000', 1),
    ("/api/v1/alerts?limit=1000", b'"fingerprint"', 1_000),
)


async def test_no_long_answer_holds_the_loop(large_site: Site) -> None:
    """Rows are made, put in order, encoded and written few at a time, and none is missing."""
    headers = {"Accept-Encoding": "identity"}
    for path, row, rows in _ANSWERS:
        with counting_steps() as longest:
            async with large_site.session.get(large_site.url + path, headers=headers) as response:
                pieces = [piece async for piece in response.content.iter_any()]
        body = b"".join(pieces)
        assert response.status == 200, path
        assert int(response.headers["Content-Length"]) == len(body), path
        assert body.count(row) >= rows, path
        assert longest.lines <= LINES_IN_A_STEP, f"{path}: {longest.name}: {longest.lines} lines"


async def test_a_stream_with_a_long_backlog_does_not_hold_the_loop(site: Site) -> None:
    """A reader that begins a thousand events back gets all of them, few at a time."""
    events = [run_event(str(number), Status.SUCCEEDED) for number in range(1_000)]
    await site.bus.commit(Change(events=tuple(events)), timeout_seconds=10)
    url = f"{site.url}/api/v1/events/stream?after=0"
    last = f"id: {len(events)}\n".encode()
    received = bytearray()
    with counting_steps() as longest:
        async with asyncio.timeout(60), site.session.get(url) as response:
            async for piece in response.content.iter_any():
                received += piece
                if last in received[-2_000:]:
                    break
    assert received.count(b"\nevent: ") == len(events)
    assert longest.lines <= LINES_IN_A_STEP, f"{longest.name}: {longest.lines} lines in one step"
