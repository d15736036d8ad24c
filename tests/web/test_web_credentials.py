"""Wrong credentials: delayed, counted, and logged in sum."""

from __future__ import annotations

import asyncio

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
    """A hundred guesses at once hold 32 connections; the others are answered, and all counted."""
    guesses = [guess(site, f"guess {number}") for number in range(90)]
    await eventually(lambda: site.refused("wrong_credentials") == 90, why="not arrived")
    await eventually(lambda: sum(task.done() for task in guesses) == 58, why="not answered")
    await site.clock.advance(1)

    assert {(await task).status for task in guesses} == {401}


async def test_guesses_are_logged_in_sum_without_what_was_guessed(site: Site) -> None:
    """One line a minute has the number and the sources of wrong tokens."""
    with structlog.testing.capture_logs() as lines:
        guesses = [guess(site, "guessed-token") for _ in range(20)]
        await eventually(lambda: site.refused("wrong_credentials") == 20, why="not arrived")
        await site.clock.advance(60)
        await asyncio.gather(*guesses)
        await eventually(lambda: sum(line["count"] for line in lines) == 20, why=lambda: lines)

    assert len(lines) <= 2
    assert {line["reason"] for line in lines} == {"wrong_credentials"}
    assert all(set(line["sources"]) == {"127.0.0.1"} for line in lines)
    assert "guessed-token" not in str(lines)
