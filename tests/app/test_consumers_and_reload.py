"""The daemon's steps: who has a place in the log, and what a new configuration changes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Addresses, Daemon
from monitor.config import Configuration, LogLevel, LogSettings
from monitor.model.clock import SystemClock
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret
from monitor.workspace.settings import WorkspaceSettings
from tests.app import stage


def consumers(folder: Path) -> set[str]:
    with sqlite3.connect(folder / "state.db") as db:
        return {name for (name,) in db.execute("SELECT name FROM consumer")}


async def during(
    settings: Configuration, act: Callable[[Daemon, Addresses], Awaitable[None]]
) -> Daemon:
    """Run a daemon, act once when it has started, and stop it."""
    daemon = Daemon(settings, clock=SystemClock(), registry=CollectorRegistry())
    stop = asyncio.Event()
    started: list[Addresses] = []

    async def once() -> None:
        try:
            await act(daemon, started[0])
        finally:
            stop.set()
        await asyncio.Event().wait()

    await daemon.run(stop, on_started=started.append, beside={"the test": once})
    return daemon


async def test_every_consumer_has_its_place_before_anything_can_happen(tmp_path: Path) -> None:
    """When the daemon has started, no consumer can begin behind an event of this life."""
    at_start: set[str] = set()
    settings = stage.configuration(
        tmp_path, stage.unreachable("acme"), broker_url="mqtt://127.0.0.1:9"
    )
    stop = asyncio.Event()

    def look(_: Addresses) -> None:
        at_start.update(consumers(tmp_path))
        stop.set()

    daemon = Daemon(settings, clock=SystemClock(), registry=CollectorRegistry())
    async with asyncio.timeout(60):
        await daemon.run(stop, on_started=look)

    assert at_start == {"metrics", "alerting", "mqtt", "misses/acme"}


async def test_a_reload_gives_and_takes_places_in_the_log(tmp_path: Path) -> None:
    """A workspace that comes has its consumer at once, one that goes leaves none behind."""
    settings = stage.configuration(tmp_path, stage.unreachable("here"), stage.unreachable("gone"))
    wanted = stage.configuration(tmp_path, stage.unreachable("here"), stage.unreachable("new"))
    found: list[set[str]] = []
    waiting: list[str] = []

    async def act(daemon: Daemon, _: Addresses) -> None:
        changed = msgspec.structs.replace(wanted, log=LogSettings(level=LogLevel.DEBUG))
        waiting.extend(await daemon.reload(changed))
        found.append(consumers(tmp_path))
        found.append({workspace.workspace for workspace in daemon.view.workspaces()})

    await during(settings, act)

    assert found == [{"metrics", "alerting", "misses/here", "misses/new"}, {"here", "new"}]
    assert waiting == ["log"]


async def test_a_reload_that_cannot_be_done_keeps_what_was_followed(tmp_path: Path) -> None:
    """A certificate file that is none is refused before anything is given up."""
    settings = stage.configuration(tmp_path, stage.unreachable("here"))
    junk = tmp_path / "authorities.pem"
    junk.write_text("none")
    tls = msgspec.structs.replace(
        stage.unreachable("here"),
        workspace=WorkspaceSettings(
            name="here", url="https://127.0.0.1:9", token=Secret("t"), ca_file=str(junk)
        ),
    )
    answers: list[str] = []

    async def act(daemon: Daemon, _: Addresses) -> None:
        with pytest.raises(ConfigurationError):
            await daemon.reload(stage.configuration(tmp_path, tls, stage.unreachable("new")))
        answers.extend(task.get_name() for task in asyncio.all_tasks())
        answers.extend(workspace.workspace for workspace in daemon.view.workspaces())

    await during(settings, act)

    assert "poller here" in answers
    assert "new" not in answers
