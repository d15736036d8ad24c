"""A daemon that is restarted again and again while its workspace works, and fails at times."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite import SqliteBus
from monitor.catalogue.operations import Edition
from monitor.config import Configuration
from monitor.model.events import WorkspaceEvent
from monitor.polling.settings import InventorySettings
from tests.app import fixture
from tests.app.eventually import eventually
from tests.clocks import FastClock

WITHHELD = ("listApiAccessTokens", "getConnectionStatus", "countOutputObjects", "listSchedules")


async def workspace_events(folder: Path, clock: FastClock) -> list[WorkspaceEvent]:
    """Return what was emitted about workspaces themselves, of a daemon that has stopped."""
    bus = await SqliteBus.open(folder / "state.db", clock=clock, registry=CollectorRegistry())
    try:
        events = [recorded.event for recorded in await bus.events(after=0, limit=100_000)]
    finally:
        await bus.close()
    return [event for event in events if isinstance(event, WorkspaceEvent)]


async def live(settings: Configuration, clock: FastClock) -> None:
    """Follow the workspace for the time of some polls of each kind."""
    async with fixture.daemon(settings, clock=clock) as face:
        await eventually(lambda: face.is_following("acme"), why="not followed")
        end = clock.monotonic() + 10
        await eventually(lambda: clock.monotonic() >= end, why="time does not pass")


@pytest.mark.parametrize("lives", [4, pytest.param(30, marks=pytest.mark.soak)])
async def test_restarts_under_load_emit_nothing_that_did_not_happen(
    tmp_path: Path, lives: int
) -> None:
    """Runs come and go, one answer in ten is an error, some operations are withheld for good."""
    clock = FastClock(speed=12.0)
    workspace = fixture.sandbox(Edition.RL, clock=clock)
    workspace.world.options.lose.update(dict.fromkeys(WITHHELD, 0.0))
    inventory = InventorySettings(connections=True, interval_seconds=5.0)
    async with fixture.started(workspace) as url:
        settings = fixture.configuration(
            tmp_path, fixture.workspace_configuration(workspace, url, inventory=inventory)
        )
        workspace.open_for_work()
        for life in range(lives):
            workspace.world.options.status_500 = 0.1 if life % 3 else 0.0
            workspace.world.options.dropped = 0.05 if life % 3 == 1 else 0.0
            await live(settings, clock)
        assert workspace.ledger.transitions()
        # One that happened, so that an empty log does not pass.
        del workspace.world.options.lose["listSchedules"]
        workspace.world.options.status_500 = workspace.world.options.dropped = 0.0
        await live(settings, clock)

    events = await workspace_events(tmp_path, clock)
    assert [(event.what, event.before, event.after) for event in events] == [
        ("capability:read_schedules", "unavailable", "available")
    ]
