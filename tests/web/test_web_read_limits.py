"""Limits of reads by their cost: one source cannot keep the event loop from all others."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request

from monitor.web.http.read_limits import cost_of
from monitor.web.settings import ServerSettings
from tests.web.site import Site

FEW = pytest.mark.parametrize(
    "settings", [ServerSettings(listen="127.0.0.1:0", read_cost_per_minute=60)], ids=["few"]
)


@pytest.mark.parametrize(
    ("path", "cost"),
    [
        ("/", 1),
        ("/api/v1/runs", 1),
        ("/api/v1/runs?limit=100", 2),
        ("/api/v1/runs?limit=1000", 11),
        ("/api/v1/report?pipeline=sales*", 11),
        ("/api/v1/report?pipeline=a*&workspace=b?", 21),
        ("/api/v1/runs?limit=99999999999999999999", 1_001),
        ("/api/v1/runs?limit=x", 1),
        ("/api/v1/runs?limit=\u0661", 1),
        ("/static/page.js", 0),
        ("/healthz", 0),
        ("/readyz", 0),
        ("/metrics", 0),
    ],
)
def test_a_read_costs_what_it_makes_the_daemon_do(path: str, cost: float) -> None:
    """Rows and patterns cost more; probes, scrapes and files cost nothing."""
    assert cost_of(make_mocked_request("GET", path)) == cost


@FEW
async def test_reads_of_a_source_are_limited_by_their_cost(site: Site) -> None:
    """Past the limit a source gets 429 with a time to come back, and then may read again."""
    large = [await site.get("/api/v1/runs?limit=1000") for _ in range(7)]
    after = int(large[-1].headers["Retry-After"])
    await site.clock.advance(after)
    again = [(await site.get("/api/v1/runs?limit=1000")).status for _ in range(2)]

    assert [answer.status for answer in large] == [200] * 5 + [429] * 2
    assert large[-1].headers["Content-Type"] == "application/problem+json"
    assert "ask for fewer rows, or wait" in large[-1].text
    assert after == 6
    assert again == [200, 429]
    assert site.refused("too_many_reads") == 3


@FEW
async def test_a_read_that_costs_more_than_a_minute_has_waits_for_a_whole_one(site: Site) -> None:
    """It is not refused always, and takes all that there is."""
    first = await site.get("/api/v1/cluster?limit=100000")
    second = await site.get("/")
    await site.clock.advance(60)
    third = await site.get("/api/v1/cluster?limit=100000")

    assert [answer.status for answer in (first, second, third)] == [200, 429, 200]


@FEW
async def test_probes_scrapes_and_other_sources_are_not_held_up(site: Site) -> None:
    """What watches the daemon is answered, and so is every other reader."""
    for _ in range(6):
        await site.get("/api/v1/runs?limit=1000")
    open_paths = [(await site.get(path)).status for path in ("/healthz", "/readyz", "/metrics")]
    async with (
        site.from_address("127.0.0.2") as session,
        session.get(f"{site.url}/api/v1/runs?limit=1000") as response,
    ):
        elsewhere = response.status

    assert (await site.get("/api/v1/runs?limit=1000")).status == 429
    assert 429 not in open_paths
    assert elsewhere == 200
