"""Commands never refresh: a refresh of theirs would make the daemon's pair invalid."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from aiohttp.test_utils import unused_port

from monitor.config import WorkspaceConfiguration
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import OAuthSettings, SandboxSettings
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import OauthSettings, WorkspaceSettings
from tests.app import fixture
from tests.app.eventually import eventually
from tests.cli.command_process import CommandProcess
from tests.cli.doctor_scenario import run_checks


@pytest.fixture(name="sandbox")
async def _sandbox() -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(SandboxSettings(traffic=None, oauth=OAuthSettings()), SystemClock())
    await sandbox.start()
    try:
        yield sandbox
    finally:
        await sandbox.stop()


def workspace_of(sandbox: Sandbox, expires_at: datetime | None = None) -> WorkspaceConfiguration:
    assert sandbox.url is not None
    assert sandbox.token_url is not None
    assert sandbox.pair is not None
    oauth = OauthSettings(
        token_url=sandbox.token_url,
        client_id=sandbox.pair.client_id,
        refresh_token=Secret(sandbox.pair.refresh_token),
        expires_at=expires_at,
    )
    return WorkspaceConfiguration(
        workspace=WorkspaceSettings(
            name="acme", url=sandbox.url, oauth=oauth, requests_per_minute=60_000, retries=0
        ),
        poll=fixture.POLL,
    )


async def test_doctor_without_a_daemon_refreshes_nothing(tmp_path: Path, sandbox: Sandbox) -> None:
    """It checks what needs no token, and says what it did not try."""
    assert sandbox.pair is not None
    report = await run_checks(tmp_path, workspace_of(sandbox))
    assert sandbox.pair.refreshes == 0
    assert report["acme reachability"].outcome == "ok"
    assert report["acme token endpoint TLS"].outcome == "ok"
    assert report["acme token"].outcome == "warning"
    assert "not tried" in report["acme token"].found
    assert report["acme token expiry"].outcome == "warning"
    assert "acme edition" not in report


async def test_doctor_warns_of_the_end_of_the_pair(tmp_path: Path, sandbox: Sandbox) -> None:
    """As of a token's."""
    soon = datetime.now(UTC) + timedelta(days=3)
    report = await run_checks(tmp_path, workspace_of(sandbox, soon))
    assert report["acme token expiry"].outcome == "warning"
    assert "generate a new pair" in (report["acme token expiry"].hint or "")


async def test_doctor_asks_a_running_daemon(tmp_path: Path, sandbox: Sandbox) -> None:
    """Its answer shows when it refreshed, without any refresh of doctor's own."""
    assert sandbox.pair is not None
    pair, port = sandbox.pair, unused_port()
    server = ServerSettings(listen=f"127.0.0.1:{port}")
    configuration = msgspec.structs.replace(
        fixture.configuration(tmp_path, workspace_of(sandbox)), server=server
    )
    async with fixture.daemon(configuration) as face:

        async def is_reached() -> bool:
            known = await face.json("/api/v1/workspaces/acme")
            return bool(known["reachability"] == "reachable")

        await eventually(is_reached, why="the workspace was not reached")
        report = await run_checks(tmp_path, workspace_of(sandbox), server=server)
        assert pair.refreshes == 1
    assert report["acme token"].outcome == "ok", report
    assert "refreshed by the daemon at" in report["acme token"].found


async def test_api_sends_nothing_without_a_token_of_its_own(
    tmp_path: Path, sandbox: Sandbox, run_command: CommandProcess
) -> None:
    """One line says why and which variable gives it one, with which it works."""
    assert sandbox.pair is not None
    path = tmp_path / "monitor.toml"
    (tmp_path / "refresh-token").write_text(sandbox.pair.refresh_token)
    path.write_text(
        f'[[workspaces]]\nname = "north-1"\nurl = "{sandbox.url}"\n[workspaces.oauth]\n'
        f'token_url = "{sandbox.token_url}"\nclient_id = "{sandbox.pair.client_id}"\n'
        f'refresh_token_file = "refresh-token"\n[storage]\nurl = "sqlite://{tmp_path}/state.db"\n'
    )
    refused = await run_command("api", "listFlows", config=path)
    assert refused.code == 2
    assert "DATAPREP_MONITOR__WORKSPACES__NORTH_1__TOKEN" in refused.err
    assert len(refused.err.strip().splitlines()) == 1
    variables = {"DATAPREP_MONITOR__WORKSPACES__NORTH_1__TOKEN": sandbox.token}
    done = await run_command("api", "listFlows", config=path, environment=variables)
    assert (done.code, done.err) == (0, "")
    assert sandbox.pair.refreshes == 0
