"""Wrong credentials: delayed, counted, and logged in sum."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
import structlog

from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings
from tests.app.eventually import eventually
from tests.web.site import Answer, Site

TOKEN = "a token for scripts"
GUARDED = ServerSettings(listen="127.0.0.1:0", token=Secret(TOKEN))

pytestmark = pytest.mark.parametrize("settings", [GUARDED], ids=["guarded"])


def guess(site: Site, token: str) -> asyncio.Task[Answer]:
    headers = {"Authorization": f"Bearer {token}"}
    return asyncio.create_task(site.get("/api/v1/runs", headers=headers))


async def test_a_wrong_token_is_answered_late(site: Site) -> None:
    """The answer to a guess waits for a second, and those to other requests do not."""
    guessed = guess(site, "guess")
    await eventually(lambda: site.refused("wrong_credentials") == 1, why="not arrived")
    right = await guess(site, TOKEN)
    without = await site.get("/api/v1/runs")
    is_open = guessed.done()
    await site.clock.advance(1)

    assert (right.status, without.status) == (200, 401)
    assert not is_open
    assert (await guessed).status == 401


async def test_no_more_than_some_guesses_wait(site: Site) -> None:
    """Of ninety guesses at once six are looked at, and wait; the others are refused at once."""
    guesses = [guess(site, f"guess {number}") for number in range(90)]
    await eventually(lambda: site.refused("too_many_guesses") == 84, why="not arrived")
    await eventually(lambda: sum(task.done() for task in guesses) == 84, why="not answered")
    await site.clock.advance(1)

    assert Counter([(await task).status for task in guesses]) == {401: 6, 429: 84}


async def test_who_guesses_waits_longer_each_time(site: Site) -> None:
    """After five wrong tokens the wait doubles, up to five minutes; each answer names it."""
    waits: list[int] = []
    for _ in range(14):
        guessed = guess(site, "guess")
        while not guessed.done():
            await site.clock.advance(1)
            await asyncio.sleep(0)
        answer = await guessed
        if answer.status == 429:
            waits.append(int(answer.headers["Retry-After"]))
            await site.clock.advance(waits[-1])

    assert waits == sorted(waits)
    assert waits[0] <= 2
    assert waits[-1] > waits[0]
    assert all(wait <= 300 for wait in waits)


async def test_a_right_token_is_accepted_beside_guesses(site: Site) -> None:
    """A token that was right lately goes on from an address that has to wait; another does not."""
    assert (await guess(site, TOKEN)).status == 200
    guesses = [guess(site, f"guess {number}") for number in range(20)]
    await eventually(lambda: site.refused("too_many_guesses") >= 14, why="not refused")
    right, wrong = await guess(site, TOKEN), await guess(site, "another")
    await site.clock.advance(1)
    await asyncio.gather(*guesses)

    assert (right.status, wrong.status) == (200, 429)
    assert "nothing is looked at for" in wrong.text


async def test_guesses_are_logged_in_sum_without_what_was_guessed(site: Site) -> None:
    """One line a minute has the number and the sources of wrong tokens."""
    with structlog.testing.capture_logs() as lines:
        guesses = [guess(site, "guessed-token") for _ in range(20)]
        await eventually(lambda: site.refused("too_many_guesses") == 14, why="not arrived")
        await site.clock.advance(60)
        await asyncio.gather(*guesses)
        await eventually(lambda: sum(line["count"] for line in lines) == 20, why=lambda: lines)

    assert len(lines) <= 4
    assert {line["reason"] for line in lines} == {"wrong_credentials", "too_many_guesses"}
    assert all(set(line["sources"]) == {"127.0.0.1"} for line in lines)
    assert "guessed-token" not in str(lines)
