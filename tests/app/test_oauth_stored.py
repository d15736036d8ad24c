"""A stored pair that cannot be used just now, by damage or by the store, is never given up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.bus.contract import Change, StateEntry
from monitor.model.errors import BusSchemaError
from tests.app.oauth_scene import NAME, OauthScene, oauth_scene


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
