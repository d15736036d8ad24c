"""Every write is logged with its author, and limited."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
import structlog

from monitor.model.secrets import Secret
from monitor.web.http.source_rates import SourceRates
from monitor.web.settings import ServerSettings
from tests.clocks import ManualClock
from tests.web.people import PEOPLE, bearer, token_of
from tests.web.site import Site

GUARDED = ServerSettings(
    listen="127.0.0.1:0",
    token=Secret("a token for scripts"),
    username="ada",
    password=Secret("a password for people"),
)
SILENCE = {
    "matchers": ["pipeline=orders"],
    "author": "ada",
    "comment": "a long night\u202e\n",
    "for_seconds": 60,
}
BASIC = "Basic " + base64.b64encode(b"ada:a password for people").decode()


def writes(lines: list[Any]) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == "admin write"]


@pytest.mark.parametrize("settings", [GUARDED], ids=["guarded"])
@pytest.mark.parametrize(
    ("credentials", "who"), [("Bearer a token for scripts", "token"), (BASIC, "ada")]
)
async def test_a_write_is_logged(site: Site, credentials: str, who: str) -> None:
    """The line holds who wrote, from where, what, and what became of it; no credentials."""
    with structlog.testing.capture_logs() as lines:
        await site.post("/api/v1/silences", json=SILENCE, headers={"Authorization": credentials})

    [line] = writes(lines)
    assert (line["who"], line["source"], line["status"]) == (who, "127.0.0.1", 201)
    assert (line["method"], line["path"]) == ("POST", "/api/v1/silences")
    assert "pipeline=orders" in line["body"]
    assert "a long night" in line["body"]
    assert line["body"].isprintable()
    assert "password" not in str(line)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/api/v1/silences", 415),
        ("DELETE", "/api/v1/silences/9", 404),
        ("DELETE", "/api/v1/none%0Aforged=1" + "x" * 900, 404),
        ("PUT", "/api/v1/track", 405),
    ],
)
async def test_a_write_that_fails_is_logged_too(
    site: Site, method: str, path: str, status: int
) -> None:
    """A refused write is logged too, in one line of bounded length, with its status."""
    with structlog.testing.capture_logs() as lines:
        async with site.session.request(method, site.url + path):
            pass

    [line] = writes(lines)
    assert (line["method"], line["status"], line["who"]) == (method, status, "anonymous")
    assert line["path"].isprintable()
    assert len(line["path"]) <= 200


async def test_reads_are_not_logged(site: Site) -> None:
    """The page asks every few seconds; that is no news."""
    with structlog.testing.capture_logs() as lines:
        await site.get("/api/v1/runs")
        await site.get("/api/v1/webhooks")

    assert writes(lines) == []


@pytest.mark.parametrize(
    "settings", [ServerSettings(listen="127.0.0.1:0", writes_per_minute=30)], ids=["few"]
)
async def test_writes_of_a_source_are_limited(site: Site) -> None:
    """Past the limit a source gets 429 with a time to come back, and then may write again."""
    answers = [await site.post("/api/v1/silences", json=SILENCE) for _ in range(40)]
    reads = await site.get("/api/v1/silences")
    after = int(answers[-1].headers["Retry-After"])
    await site.clock.advance(after)
    again = [(await site.post("/api/v1/silences", json=SILENCE)).status for _ in range(3)]

    assert [answer.status for answer in answers] == [201] * 30 + [429] * 10
    assert answers[-1].headers["Content-Type"] == "application/problem+json"
    assert reads.status == 200
    assert after == 2
    assert again == [201, 429, 429]
    assert site.refused("too_many_writes") == 12


@pytest.mark.parametrize(
    "settings", [ServerSettings(listen="127.0.0.1:0", writes_per_minute=1)], ids=["few"]
)
async def test_another_source_still_writes(site: Site) -> None:
    """The writes of one source lock no other out."""
    first = [(await site.post("/api/v1/silences", json=SILENCE)).status for _ in range(2)]
    async with site.from_address("127.0.0.2") as session:
        url = f"{site.url}/api/v1/silences"
        async with session.post(url, json=SILENCE) as response:
            other = response.status

    assert (first, other) == ([201, 429], 201)


@pytest.mark.parametrize(
    "settings", [msgspec.structs.replace(PEOPLE, writes_per_minute=3)], ids=["few"]
)
async def test_writes_of_a_user_are_limited_wherever_they_come_from(site: Site) -> None:
    """Who has addresses without end must not push the audit out; other users still write."""
    statuses: list[int] = []
    for name, number in [("operate-user", number) for number in range(5)] + [("admin-user", 9)]:
        headers = {**bearer(token_of(name)), "X-Forwarded-For": f"192.0.2.{number}"}
        statuses.append((await site.post("/api/v1/silences", json=SILENCE, headers=headers)).status)

    assert statuses == [201, 201, 201, 429, 429, 201]


async def test_the_writes_of_few_sources_are_remembered() -> None:
    """A source that has written lately stays limited, beside hundreds of others."""
    clock = ManualClock()
    rates = SourceRates(per_minute=1, clock=clock)
    sources = [f"10.0.{index >> 8}.{index & 255}" for index in range(10_000)]
    for source in sources:
        assert rates.take(source) == 0

    assert rates.take(sources[-900]) == 60
    assert rates.take(sources[0]) == 0  # forgotten, and so were its writes
    await clock.advance(30)
    assert rates.take(sources[0]) == 30
