"""A stored pair that cannot be used just now, by damage or by the store, is never given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.bus.contract import Change, StateEntry
from monitor.model.errors import BusSchemaError
from tests.app.eventually import pause
from tests.app.oauth_scenario import ACCESS_SECONDS, NAME, OauthScenario, Refresher, oauth_scenario


@pytest.fixture(name="scenario")
async def _scenario(tmp_path: Path) -> AsyncIterator[OauthScenario]:
    async with oauth_scenario(tmp_path) as scenario:
        yield scenario


@pytest.mark.parametrize("damaged", [b"{", b'{"pair": 7}', b"\xff"])
async def test_a_damaged_pair_stays_and_nothing_is_sent(
    scenario: OauthScenario, damaged: bytes
) -> None:
    """The part ends with an error that says so, and the configured token is not sent instead."""
    assert scenario.sandbox.pair is not None
    async with scenario.running() as daemon:
        entry = StateEntry(workspace=NAME, topic="oauth", key="tokens", value=damaged)
        await daemon.bus.commit(Change(state_entries=(entry,)), timeout_seconds=10)
    daemon = scenario.refresher()
    await daemon.start()
    try:
        await daemon.until(lambda: daemon.task.done() or daemon.cycles > 0)
        assert daemon.task.done()
        error = daemon.task.exception()
        assert isinstance(error, BusSchemaError)
        assert "nothing is sent" in str(error)
        assert await daemon.bus.state_entries(NAME, "oauth") == {"tokens": damaged}
        assert scenario.sandbox.pair.refreshes == 1
    finally:
        await daemon.stop()


async def test_a_stop_tries_to_store_a_pair_for_half_a_minute(scenario: OauthScenario) -> None:
    """A store that is back within that time takes the pair."""
    daemon = await _with_a_refused_pair(scenario)
    stopping = asyncio.create_task(daemon.stop())
    for _ in range(20):
        await scenario.clock.advance(1)
        await pause(0.01)
    daemon.refuses_pairs = False
    while not stopping.done():
        await scenario.clock.advance(1)
        await pause(0.01)
    async with scenario.running() as daemon:
        assert daemon.trouble is None
        assert daemon.count("refreshed") == 0


async def test_a_restarted_task_stores_the_pair_and_all_is_well(scenario: OauthScenario) -> None:
    """A stop gives up in bounded time; the task that is started again has no trouble left."""
    daemon = await _with_a_refused_pair(scenario)
    for _ in range(9):
        await scenario.clock.advance(10)
        await pause(0.01)
    assert daemon.trouble is not None
    daemon.task.cancel()
    began = scenario.clock.monotonic()
    while not daemon.task.done():
        await scenario.clock.advance(1)
        await pause(0.01)
    assert 30 <= scenario.clock.monotonic() - began < 35
    daemon.refuses_pairs = False
    cycles = daemon.cycles
    daemon.task = asyncio.create_task(daemon.tokens.run(), name="access token")
    await daemon.until(lambda: daemon.cycles > cycles)
    assert daemon.trouble is None
    assert await daemon.can_read()
    await daemon.stop()


async def _with_a_refused_pair(scenario: OauthScenario) -> Refresher:
    """Start a daemon that has a new pair which the store refuses."""
    daemon, pair = scenario.refresher(), scenario.sandbox.pair
    assert pair is not None
    await daemon.start()
    await daemon.begun()
    daemon.refuses_pairs = True
    await scenario.clock.advance(ACCESS_SECONDS * 2 / 3 + 1)
    await daemon.until(lambda: pair.refreshes == 2 and daemon.count("store") > 0)
    return daemon


async def test_a_new_token_that_fails_does_not_starve_the_pair(scenario: OauthScenario) -> None:
    """The stored pair is refreshed at its time, the new token is tried later, both are said."""
    pair = scenario.sandbox.pair
    assert pair is not None
    async with scenario.running() as daemon:
        daemon.rejects = "mistyped"
        scenario.file.text = "mistyped"
        for _ in range(30):
            await daemon.cycle()
            assert await daemon.can_read()
        assert 2 <= daemon.count("rejected") <= 5
        assert pair.refreshes >= 4
        assert daemon.trouble is not None
        assert "the new refresh token" in daemon.trouble.reason
        assert "the pair before it stays in use" in daemon.trouble.reason
        daemon.rejects = None
        scenario.generate_pair()
        await daemon.recovered()
        assert await daemon.can_read()
