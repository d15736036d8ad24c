"""A whole daemon on a workspace whose access tokens are refreshed: it works, alerts, and is silent.

The sandbox takes only such tokens; they live for seconds of the machine's clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.alerting.settings import AlertingSettings
from monitor.app.daemon import Addresses, Daemon
from monitor.bus.settings import StorageSettings
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.clock import SystemClock
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import OAuthSettings, SandboxSettings
from monitor.sandbox.world.token_pairs import replaced, revoke
from monitor.workspace.settings import OauthSettings, WorkspaceSettings
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.oauth_scenario import TokenFile
from tests.postgres_server import PostgresServer

PAGES = ("/", "/metrics", "/api/v1/workspaces/acme", "/api/v1/events", "/api/v1/alerts", "/alerts")
_LIFE_SECONDS = 6


@pytest.fixture(name="sandbox")
async def _sandbox() -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(
        SandboxSettings(traffic=None, oauth=OAuthSettings(access_token_seconds=_LIFE_SECONDS)),
        SystemClock(),
    )
    await sandbox.start()
    try:
        yield sandbox
    finally:
        await sandbox.stop()


def settings(folder: Path, sandbox: Sandbox, file: TokenFile) -> Configuration:
    assert sandbox.url is not None
    assert sandbox.token_url is not None
    assert sandbox.pair is not None
    workspace = WorkspaceConfiguration(
        workspace=WorkspaceSettings(
            name="acme",
            url=sandbox.url,
            oauth=OauthSettings(
                token_url=sandbox.token_url,
                client_id=sandbox.pair.client_id,
                refresh_token=file.secret(),
                expires_at=datetime.now(UTC) + timedelta(days=3),
            ),
            requests_per_minute=60_000,
            retries=0,
        ),
        poll=fixture.POLL,
    )
    alerting = AlertingSettings(evaluation_interval_seconds=1.0)
    return msgspec.structs.replace(fixture.configuration(folder, workspace), alerting=alerting)


def is_of(metric: str, line: str) -> bool:
    """True for a sample of that metric about the workspace."""
    return line.startswith(metric) and 'workspace="acme"' in line


async def firing(face: Face) -> dict[str, str]:
    """Return the descriptions of the alerts about the pair, by their token id."""
    return {
        alert["labels"]["token_id"]: alert["annotations"]["description"]
        for alert in (await face.json("/api/v1/alerts"))["data"]
        if alert["rule"] == "token_expiring" and alert["state"] == "firing"
    }


async def test_a_daemon_lives_on_refreshed_tokens(
    tmp_path: Path, sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reads over many lives, warns of the pair's end, says that it is locked out, recovers."""
    assert sandbox.pair is not None
    file = TokenFile(sandbox.pair.refresh_token)
    secrets = {file.text}
    pages: list[str] = []

    async def gather(face: Face) -> None:
        secrets.update(token.value for token in sandbox.world.tokens.live())
        assert sandbox.pair is not None
        secrets.add(sandbox.pair.refresh_token)
        pages.extend([await face.text(page) for page in PAGES])

    async with fixture.daemon(settings(tmp_path, sandbox, file)) as face:

        async def fire(*token_ids: str) -> bool:
            return set(await firing(face)) == set(token_ids)

        pair = sandbox.pair
        await eventually(lambda: pair.refreshes >= 3, why=lambda: pair, within_seconds=60)
        details = await face.json("/api/v1/workspaces/acme")
        assert details["reachability"] == "reachable"
        assert details["refreshed_token"]["trouble"] is None
        lines = (await face.text("/metrics")).splitlines()
        assert [line for line in lines if is_of("dataprep_monitor_token_refreshes", line)]
        assert [line for line in lines if is_of("dataprep_monitor_access_token_expiry", line)]
        assert [line for line in lines if is_of("dataprep_token_expiry", line)], [
            line for line in lines if "token" in line
        ]
        own_end, locked_out = "refresh_token", "refresh_token/locked_out"
        await eventually(lambda: fire(own_end), why="no warning of the pair's end")
        await gather(face)
        revoke(sandbox.world, pair)
        await eventually(lambda: fire(own_end, locked_out), why="no alert about the lost pair")
        assert "generate a new token pair" in (await firing(face))[locked_out]
        await gather(face)
        sandbox.pair = replaced(sandbox.world, pair)
        file.text = sandbox.pair.refresh_token
        secrets.add(file.text)
        await eventually(lambda: fire(own_end), why="it did not recover", within_seconds=90)
        await gather(face)
    logged = capsys.readouterr()
    shown = "\n".join([*pages, logged.out, logged.err])
    assert len(secrets) > 5
    assert not [secret for secret in secrets if secret in shown]


async def refreshes_of(face: Face, outcome: str = "refreshed") -> float:
    metric = f'dataprep_monitor_token_refreshes_total{{workspace="acme",outcome="{outcome}"'
    lines = (await face.text("/metrics")).splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(metric))


async def test_of_two_daemons_the_holder_refreshes(
    tmp_path: Path, sandbox: Sandbox, empty_database: str
) -> None:
    """The other never does, and goes on with the pair when the holder ends."""
    assert sandbox.pair is not None
    pair, file = sandbox.pair, TokenFile(sandbox.pair.refresh_token)
    living: dict[str, contextlib.AsyncExitStack] = {}
    faces: dict[str, Face] = {}

    async def start(name: str) -> None:
        (tmp_path / name).mkdir()
        storage = StorageSettings(url=empty_database, daemon=name, lease_seconds=3.0)
        made = msgspec.structs.replace(settings(tmp_path / name, sandbox, file), storage=storage)
        living[name] = contextlib.AsyncExitStack()
        faces[name] = await living[name].enter_async_context(fixture.daemon(made))

    async def holders() -> list[str]:
        details = {name: await face.json("/api/v1/workspaces/acme") for name, face in faces.items()}
        return [name for name, known in details.items() if known["authentication"] is not None]

    async def refreshed_by(number: int) -> None:
        before = pair.refreshes
        await eventually(lambda: pair.refreshes >= before + number, why=lambda: pair)

    try:
        await start("north")
        await refreshed_by(1)
        await start("south")
        await refreshed_by(2)  # where the shard is handed over, that comes after it
        (holder,) = await holders()
        (other,) = set(faces) - {holder}
        before = await refreshes_of(faces[other])
        await refreshed_by(2)
        assert await holders() == [holder]
        assert await refreshes_of(faces[other]) == before
        await living.pop(holder).aclose()
        del faces[holder]
        await refreshed_by(2)
        details = await faces[other].json("/api/v1/workspaces/acme")
        assert details["refreshed_token"]["trouble"] is None
        assert await refreshes_of(faces[other], "refused") == 0
    finally:
        for stack in living.values():
            await stack.aclose()


async def test_a_database_that_fails_within_a_refresh_costs_no_pair(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    """It is away for longer than a lease: the next holder of the shard stores the answer it has."""
    assert sandbox.pair is not None
    pair, file = sandbox.pair, TokenFile(sandbox.pair.refresh_token)
    async with PostgresServer() as server:
        url = server.url(await server.create_database())
        storage = StorageSettings(url=url, daemon="north", lease_seconds=3.0)
        made = msgspec.structs.replace(settings(tmp_path, sandbox, file), storage=storage)
        async with fixture.daemon(made) as face:

            async def has_lost_its_shard() -> bool:
                shown = (await face.json("/api/v1/workspaces"))["data"]
                return not any(workspace["is_here"] for workspace in shown)

            await eventually(lambda: pair.refreshes >= 1, why=lambda: pair)
            before, sandbox.world.options.token_answer_latency = pair.refreshes, 1.0
            await eventually(lambda: pair.refreshes > before, why=lambda: pair)
            await server.kill()
            sandbox.world.options.token_answer_latency = 0.0
            await eventually(has_lost_its_shard, why="it still holds the shard")
            await server.start()
            after = pair.refreshes
            await eventually(lambda: pair.refreshes > after, why=lambda: pair, within_seconds=60)
            details = await face.json("/api/v1/workspaces/acme")
            assert details["refreshed_token"]["trouble"] is None
            assert await refreshes_of(face, "refused") == 0


async def test_a_reload_within_a_refresh_costs_nothing(tmp_path: Path, sandbox: Sandbox) -> None:
    """The new settings begin with the pair whose answer was on its way when they came."""
    assert sandbox.pair is not None
    pair, file = sandbox.pair, TokenFile(sandbox.pair.refresh_token)
    configuration = settings(tmp_path, sandbox, file)
    daemon = Daemon(configuration, clock=SystemClock(), registry=CollectorRegistry())
    stop = asyncio.Event()
    ports: list[Addresses] = []
    seen: list[Any] = []

    async def act() -> None:
        face = Face(ports[0].server_port)
        await eventually(lambda: pair.refreshes >= 1, why="no refresh")
        sandbox.world.options.token_answer_latency = 1.0
        before = pair.refreshes
        await eventually(lambda: pair.refreshes > before, why="no refresh")
        (workspace,) = configuration.workspaces
        other = msgspec.structs.replace(workspace.workspace, retries=1)
        changed = msgspec.structs.replace(workspace, workspace=other)
        await daemon.reload(msgspec.structs.replace(configuration, workspaces=(changed,)))
        sandbox.world.options.token_answer_latency = 0.0
        after = pair.refreshes
        await eventually(lambda: pair.refreshes > after + 1, why="no refresh after the reload")
        seen.append((await face.json("/api/v1/workspaces/acme"))["refreshed_token"])
        stop.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(100):
        await daemon.run(stop, on_started=ports.append, beside={"the test": act})
    assert seen[0]["trouble"] is None


def test_the_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    """It holds the pair, so no other user can read it, nor the files beside it."""
    modes: dict[str, int] = {}

    def look() -> None:
        modes.update({path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()})

    async def run() -> None:
        async with fixture.daemon(fixture.configuration(tmp_path, fixture.unreachable("acme"))):
            await asyncio.to_thread(look)

    asyncio.run(run())
    assert modes["state.db"] == 0o600
    assert set(modes.values()) == {0o600}
    with sqlite3.connect(tmp_path / "state.db") as database:
        assert database.execute("SELECT 1").fetchone() == (1,)
