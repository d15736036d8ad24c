"""Silences that were made and ended while a shard was not there."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import aiohttp
import msgspec
from prometheus_client import CollectorRegistry

from monitor.alerting.alerts.pending_step import SILENCE as ROW
from monitor.alerting.engine.committed_state import CONSUMER as ALERTING
from monitor.app.store_opening import open_store
from monitor.bus.settings import StorageSettings
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.alerts import Silence
from monitor.model.clock import SystemClock
from tests.app import fixture
from tests.app.daemon_http import Face

SILENCE = {
    "matchers": ["pipeline=orders"],
    "author": "ann",
    "comment": "the warehouse moves",
    "for_seconds": timedelta(hours=1).total_seconds(),
}


async def said(face: Face, *, ended: str | None = None) -> str:
    """Make a silence, end another, and return the id of the new one."""
    async with aiohttp.ClientSession() as session:
        if ended is not None:
            async with session.delete(f"{face.url}/api/v1/silences/{ended}") as answer:
                assert answer.status < 300
        async with session.post(f"{face.url}/api/v1/silences", json=SILENCE) as answer:
            return str((await answer.json())["id"])


async def test_a_shard_learns_of_silences_that_were_made_without_it(
    tmp_path: Path, empty_database: str
) -> None:
    """They name no workspace: also one that is new, or followed again, has what people said."""
    storage = StorageSettings(url=empty_database, daemon="north")
    acme, back, new = (fixture.unreachable(name) for name in ("acme", "back", "new"))

    def settings(*workspaces: WorkspaceConfiguration) -> Configuration:
        made = fixture.configuration(tmp_path, *workspaces)
        return msgspec.structs.replace(made, storage=storage)

    async with fixture.daemon(settings(acme, back)) as face:
        former = await said(face)
    async with fixture.daemon(settings(acme)) as face:
        present = await said(face, ended=former)
    async with fixture.daemon(settings(acme, back, new)):
        pass
    store = await open_store(storage, clock=SystemClock(), registry=CollectorRegistry())
    assert store.elsewhere is not None
    stored = await store.elsewhere.consumer_states(ALERTING, ("back", "new"))
    await store.close()
    now = SystemClock().now()
    known = {
        shard: {
            silence.id: silence.ends_at > now
            for key, row in rows.items()
            if key.startswith(f"{ROW}:")
            for silence in [msgspec.json.decode(row, type=Silence)]
        }
        for shard, rows in stored.items()
    }
    assert known == {"back": {former: False, present: True}, "new": {present: True}}
