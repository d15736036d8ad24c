"""A stored pair that cannot be used just now, by damage or by the store, is never given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.bus.contract import Change, StateEntry
from monitor.model.errors import BusSchemaError
from tests.app.eventually import pause
from tests.app.oauth_scene import ACCESS_SECONDS, NAME, OauthScene, Refresher, oauth_scene


@pytest.fixture(name="scene")
async def _scene(tmp_path: Path) -> AsyncIterator[OauthScene]:
    async with oauth_scene(tmp_path) as scene:
        yield scene


@pytest.mark.parametrize("damaged", [b"{", b'{"pair": 7}', b"\xff"])
async def test_a_damaged_pair_stays_and_nothing_is_sent(scene: OauthScene, damaged: bytes) -> None:
    """The part ends with an error that says so, and the configured token is not sent instead."""
    assert scene.sandbox.pair is not None
    async with scene.running() as daemon:
        entry = StateEntry(workspace=NAME, topic="oauth", key="tokens", value=damaged)
        await daemon.bus.commit(Change(state_entries=(entry,)), timeout_seconds=10)
    daemon = scene.refresher()
    await daemon.start()
    try:
        await daemon.until(lambda: daemon.task.done() or daemon.cycles > 0)
        assert daemon.task.done()
        error = daemon.task.exception()
        assert isinstance(error, BusSchemaError)
        assert "nothing is sent" in str(error)
        assert await daemon.bus.state_entries(NAME, "oauth") == {"tokens": damaged}
        assert scene.sandbox.pair.refreshes == 1
    finally:
        await daemon.stop()


async def test_a_stop_tries_to_store_a_pair_for_half_a_minute(scene: OauthScene) -> None:
    """A store that is back within that time takes the pair."""
    daemon = await _with_a_refused_pair(scene)
    stopping = asyncio.create_task(daemon.stop())
    for _ in range(20):
        await scene.clock.advance(1)
        await pause(0.01)
    daemon.refuses_pairs = False
    while not stopping.done():
        await scene.clock.advance(1)
        await pause(0.01)
    async with scene.running() as daemon:
        assert daemon.trouble is None
        assert daemon.count("refreshed") == 0


async def test_a_restarted_task_stores_the_pair_and_all_is_well(scene: OauthScene) -> None:
    """A stop gives up in bounded time; the task that is started again has no trouble left."""
    daemon = await _with_a_refused_pair(scene)
    for _ in range(9):
        await scene.clock.advance(10)
        await pause(0.01)
    assert daemon.trouble is not None
    daemon.task.cancel()
    began = scene.clock.monotonic()
    while not daemon.task.done():
        await scene.clock.advance(1)
        await pause(0.01)
    assert 30 <= scene.clock.monotonic() - began < 35
    daemon.refuses_pairs = False
    cycles = daemon.cycles
    daemon.task = asyncio.create_task(daemon.tokens.run(), name="access token")
    await daemon.until(lambda: daemon.cycles > cycles)
    assert daemon.trouble is None
    assert await daemon.can_read()
    await daemon.stop()


async def _with_a_refused_pair(scene: OauthScene) -> Refresher:
    """Start a daemon that has a new pair which the store refuses."""
    daemon, pair = scene.refresher(), scene.sandbox.pair
    assert pair is not None
    await daemon.start()
    await daemon.begun()
    daemon.refuses_pairs = True
    await scene.clock.advance(ACCESS_SECONDS * 2 / 3 + 1)
    await daemon.until(lambda: pair.refreshes == 2 and daemon.count("store") > 0)
    return daemon


async def test_a_new_token_that_fails_does_not_starve_the_pair(scene: OauthScene) -> None:
    """The stored pair is refreshed at its time, the new token is tried later, both are said."""
    pair = scene.sandbox.pair
    assert pair is not None
    async with scene.running() as daemon:
        daemon.rejects = "mistyped"
        scene.file.text = "mistyped"
        for _ in range(30):
            await daemon.cycle()
            assert await daemon.can_read()
        assert 2 <= daemon.count("rejected") <= 5
        assert pair.refreshes >= 4
        assert daemon.trouble is not None
        assert "the new refresh token" in daemon.trouble.reason
        assert "the pair before it stays in use" in daemon.trouble.reason
        daemon.rejects = None
        scene.generate_pair()
        await daemon.recovered()
        assert await daemon.can_read()
