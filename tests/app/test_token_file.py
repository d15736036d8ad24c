"""A plain token that changes in its file is taken over without a reload, however it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from monitor.cli.settings_files import load
from monitor.logs import Redactor
from monitor.model.errors import UnauthorizedError
from monitor.model.secrets import Secret
from monitor.workspace.access.access_tokens import ConfiguredToken
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.priority import Priority
from tests.app.eventually import eventually
from tests.clocks import ManualClock
from tests.workspace.scripted import serving

FORMS = ("token_file", "token_credential")


@dataclass
class Gate:
    """A workspace that takes one token, and counts what it refuses."""

    token: str
    refused: int = 0
    seen: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        given = request.headers["Authorization"].removeprefix("Bearer ")
        self.seen.append(given)
        if given == self.token:
            return web.json_response({"data": []})
        self.refused += 1
        return web.json_response({"exception": {"name": "MissingPersonException"}}, status=401)


@dataclass(kw_only=True)
class FileScenario:
    """A client whose token was read by the configuration; ``folder`` holds the file."""

    client: WorkspaceClient
    clock: ManualClock
    gate: Gate
    folder: Path
    redactor: Redactor

    async def read(self) -> None:
        await self.client.requester.request("listFlows", priority=Priority.CHANGES)


@pytest.fixture(name="scenario", params=FORMS)
async def _scenario(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FileScenario]:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    gate, clock = Gate("first"), ManualClock()
    (tmp_path / "token").write_text("first\n")
    async with serving(gate.answer) as server:
        (tmp_path / "monitor.toml").write_text(
            f'[[workspaces]]\nname = "north"\nurl = "{server.url}"\n{request.param} = "token"\n'
            "retries = 0\n[workspaces.poll]\nrequests_per_minute = 60000\n"
        )
        (workspace,) = load(tmp_path / "monitor.toml").workspaces
        settings = workspace.workspace
        redactor = Redactor([Secret("first")])
        tokens = ConfiguredToken(
            settings.token, workspace="north", clock=clock, register=redactor.register
        )
        running = asyncio.create_task(tokens.run())
        client = WorkspaceClient(settings, clock=clock, registry=CollectorRegistry(), tokens=tokens)
        async with client:
            yield FileScenario(
                client=client, clock=clock, gate=gate, folder=tmp_path, redactor=redactor
            )
        running.cancel()


def overwrite(folder: Path, text: str) -> None:
    (folder / "token").write_text(text)


def rename(folder: Path, text: str) -> None:
    (folder / "token.new").write_text(text)
    (folder / "token.new").rename(folder / "token")


def swap_links(folder: Path, text: str) -> None:
    """Exchange the folder that a link leads to, as Kubernetes does with a mounted secret."""
    version = folder / f"..{text.strip()}"
    version.mkdir()
    (version / "token").write_text(text)
    (folder / "..data_tmp").symlink_to(version.name)
    (folder / "..data_tmp").rename(folder / "..data")
    if not (folder / "token").is_symlink():
        (folder / "token").unlink()
        (folder / "token").symlink_to("..data/token")


@pytest.mark.parametrize("change", [overwrite, rename, swap_links])
async def test_it_is_read_again_at_a_401(
    scenario: FileScenario, change: Callable[[Path, str], None]
) -> None:
    """The request that is refused reads the file and is repeated once with the new token."""
    for number in range(3):
        change(scenario.folder, f"number {number}")
        scenario.gate.token = f"number {number}"
        await scenario.read()
        assert scenario.redactor.text(f"a number {number}, first") == "a ***, ***"
    assert scenario.gate.refused == 3


@pytest.mark.parametrize("change", [overwrite, rename, swap_links])
async def test_it_is_read_again_within_a_minute(
    scenario: FileScenario, change: Callable[[Path, str], None]
) -> None:
    """Also while the former token is still accepted, so that it can be deleted afterwards."""
    await scenario.read()
    change(scenario.folder, "second\n")
    scenario.gate.token = "second"
    tokens = scenario.client.requester._tokens
    await scenario.clock.advance(59)

    async def is_new() -> bool:
        token = await tokens.current()
        return token is not None and token.reveal() == "second"

    await eventually(is_new, why="the file was not read")
    await scenario.read()
    assert scenario.gate.refused == 0


@pytest.mark.parametrize("broken", ["", "\n", "two\nlines", "ünlich", None])
async def test_a_broken_file_keeps_the_former_token(
    scenario: FileScenario, broken: str | None
) -> None:
    """It is logged once, and the next good file is taken."""
    if broken is None:
        (scenario.folder / "token").unlink()
    else:
        (scenario.folder / "token").write_text(broken)
    with structlog.testing.capture_logs() as logged:
        for _ in range(5):
            await scenario.clock.advance(30)
            await scenario.read()
        scenario.gate.token = "third"
        for _ in range(3):
            with pytest.raises(UnauthorizedError):
                await scenario.read()
    assert set(scenario.gate.seen) == {"first"}
    assert sum("cannot be read again" in line["event"] for line in logged) == 1
    (scenario.folder / "token").write_text("third")
    await scenario.read()


async def test_a_token_that_stays_refused_is_sent_once(scenario: FileScenario) -> None:
    """Without a new token in the file nothing is repeated."""
    scenario.gate.token = "another"
    with pytest.raises(UnauthorizedError):
        await scenario.read()
    assert scenario.gate.seen == ["first"]
