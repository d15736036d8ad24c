"""The audit of a running daemon: of writes and reloads, over restarts, for every daemon."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Addresses, Daemon
from monitor.bus.settings import StorageSettings
from monitor.cli.service_manager import ServiceManager
from monitor.cli.sighup import SighupReload
from monitor.config import Configuration
from monitor.logs import Redactor
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.processes import command

SILENCE = {
    "matchers": ["pipeline=orders"],
    "author": "ann",
    "comment": "the warehouse moves",
    "for_seconds": 3_600,
}
BACKENDS = ("sqlite", "postgres")


@pytest.fixture(params=BACKENDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> StorageSettings:
    if request.param == "sqlite":
        return StorageSettings(url=f"sqlite://{tmp_path / 'state.db'}")
    return StorageSettings(url=request.getfixturevalue("empty_database"), daemon="north")


def settings(folder: Path, storage: StorageSettings) -> Configuration:
    made = fixture.configuration(folder, fixture.unreachable("acme"))
    return msgspec.structs.replace(made, storage=storage)


async def audited(face: Face) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await face.json("/api/v1/audit"))["data"]
    return rows


async def silenced(face: Face) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{face.url}/api/v1/silences", json=SILENCE) as answer,
    ):
        assert answer.status == 201
        return str((await answer.json())["id"])


async def test_lines_outlast_the_daemon_and_are_exported(
    tmp_path: Path, storage: StorageSettings
) -> None:
    """What one life has written, the next one shows, and the command prints for programs."""
    async with fixture.daemon(settings(tmp_path, storage)) as face:
        made = await silenced(face)
    async with fixture.daemon(settings(tmp_path, storage)) as face:
        async with (
            aiohttp.ClientSession() as session,
            session.delete(f"{face.url}/api/v1/silences/{made}") as answer,
        ):
            assert answer.status == 200
        ended, begun = await audited(face)
        url = ("--url", face.url)
        as_json = await command("audit", "--since", "1h", "--json", *url)
        as_csv = await command("audit", "--since", "1h", "--output", "csv", *url)
        none = await command("audit", "--since", "2999-01-01T00:00:00Z", *url)

    assert (begun["what"], begun["result"], begun["after"]["id"]) == ("add_silence", "done", made)
    assert (ended["what"], ended["result"], ended["before"]["id"]) == (
        *("expire_silence", "done"),
        made,
    )
    assert ended["daemon"] == begun["daemon"] == storage.daemon_id * bool(storage.postgres)
    assert json.loads(as_json.out) == [ended, begun]
    head, *rows = as_csv.out.splitlines()
    assert head.startswith('"id","at","person","source","what","result"')
    assert [row.split(",")[0].strip('"') for row in rows] == [ended["id"], begun["id"]]
    assert (none.code, "nothing was changed" in none.err + none.out) == (0, True)


async def test_daemons_show_each_others_lines(tmp_path: Path, empty_database: str) -> None:
    """Also one that holds no shard records what is asked of it, under its own name."""
    north, south = (
        settings(tmp_path, StorageSettings(url=empty_database, daemon=name))
        for name in ("north", "south")
    )
    async with fixture.daemon(north) as first, fixture.daemon(south) as second:
        await silenced(first)
        await second.post("/api/v1/track", kind="job_group", id="7", workspace="nowhere")
        lines = await audited(first)
        assert lines == await audited(second)
    assert [(line["what"], line["daemon"], line["result"]) for line in lines] == [
        ("track", "south", "refused"),
        ("add_silence", "north", "done"),
    ]


async def test_reloads_leave_lines(tmp_path: Path, storage: StorageSettings) -> None:
    """One that came into force with the hashes of both, and one that was refused with the reason.

    A secret that a refused file holds is in no line.
    """
    path, configuration = tmp_path / "monitor.toml", settings(tmp_path, storage)
    (tmp_path / "token").write_text("t")
    workspace = 'name = "acme"\nurl = "http://127.0.0.1:9"\ntoken_file = "token"\n'
    redactor = Redactor([Secret("hunter2-hunter2")])
    daemon = Daemon(
        configuration,
        clock=SystemClock(),
        registry=CollectorRegistry(),
        redact=redactor.value,
    )
    stop, found = asyncio.Event(), list[dict[str, Any]]()
    started: list[Addresses] = []

    async def act() -> None:
        clock, reloaded = SystemClock(), list[Configuration]()
        manager = ServiceManager(None, clock=clock)
        sighup = SighupReload(
            daemon,
            path,
            configuration=configuration,
            manager=manager,
            redactor=redactor,
            clock=clock,
            on_reloaded=reloaded.append,
        )
        face = Face(started[0].server_port)
        async with asyncio.TaskGroup() as group:
            reloads = group.create_task(sighup.run(), name="reloads")
            path.write_text(f'[[workspaces]]\n{workspace}[storage]\nurl = "{storage.url}"\n')
            sighup.request()
            await eventually(lambda: len(reloaded) == 1, why="nothing was reloaded")
            path.write_text(f'[[workspaces]]\n{workspace}edition = "hunter2-hunter2"\n')
            sighup.request()

            async def is_refused() -> bool:
                found[:] = await audited(face)
                return len(found) == 2

            await eventually(is_refused, why=lambda: f"the audit has {found}")
            reloads.cancel()
        stop.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(60):
        await daemon.run(stop, on_started=started.append, beside={"the test": act})
    refused, done = found
    assert (done["what"], done["person"], done["source"]) == ("reload", "SIGHUP", "local")
    assert done["result"] == "done"
    assert done["before"]["config_hash"] != done["after"]["config_hash"]
    assert "server.listen" in done["after"]["waiting_for_restart"]
    assert (refused["what"], refused["result"]) == ("reload", "refused")
    assert "edition" in refused["reason"]
    assert "hunter2" not in str(found)
