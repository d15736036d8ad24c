"""Silences that were made before a shard was."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import aiohttp
import msgspec
from prometheus_client import CollectorRegistry

from monitor.alerting.engine.commit import CONSUMER as ALERTING
from monitor.app.store import open_store
from monitor.bus.settings import StorageSettings
from monitor.model.clock import SystemClock
from tests.app import stage

SILENCE = {
    "matchers": ["pipeline=orders"],
    "author": "ann",
    "comment": "the warehouse moves",
    "for_seconds": timedelta(hours=1).total_seconds(),
}


async def test_a_silence_reaches_a_shard_that_comes_later(
    tmp_path: Path, empty_database: str
) -> None:
    """It names no workspace, so it is for those too that are configured afterwards."""
    storage = StorageSettings(url=empty_database, daemon="north")
    settings = stage.configuration(tmp_path, stage.unreachable("acme"))
    settings = msgspec.structs.replace(settings, storage=storage)
    async with stage.daemon(settings) as face, aiohttp.ClientSession() as session:
        async with session.post(f"{face.url}/api/v1/silences", json=SILENCE) as answer:
            made = (await answer.json())["id"]
        async with session.post(f"{face.url}/api/v1/silences", json=SILENCE) as answer:
            ended = (await answer.json())["id"]
        async with session.delete(f"{face.url}/api/v1/silences/{ended}") as answer:
            assert answer.status < 300
    more = (*settings.workspaces, stage.unreachable("beta"))
    async with stage.daemon(msgspec.structs.replace(settings, workspaces=more)):
        pass
    store = await open_store(storage, clock=SystemClock(), registry=CollectorRegistry())
    assert store.elsewhere is not None
    stored = await store.elsewhere.consumer_states(ALERTING, ("acme", "beta"))
    await store.close()
    assert f"s:{made}" in stored["acme"]
    assert [key for key in stored["beta"] if key.startswith("s:")] == [f"s:{made}"]
