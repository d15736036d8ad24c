"""A workspace that answers no more: what runs there is unknown at once, wherever it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from tests.app import fixture
from tests.app.active_run import KNOWN, UNKNOWN, shown_of, start_run
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.clocks import FastClock

# Polls follow each other within a second here. By the limits of age it took five minutes.
_AT_ONCE_SECONDS = 30.0


@pytest.mark.parametrize("fault", ["status_503", "dropped"])
async def test_active_runs_are_unknown_from_the_first_failed_read_on(
    tmp_path: Path, fault: str
) -> None:
    """Page, API, retained state and gauges say so at once, and know it again at the next answer."""
    clock = FastClock()
    workspace = Sandbox(SandboxSettings(traffic=None, schedules_fire=False), clock)
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        fixture.daemon(
            fixture.configuration(
                tmp_path, fixture.workspace_configuration(workspace, url), broker_url=broker.url
            ),
            clock=clock,
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        run, shown = start_run(workspace), dict[str, Any]()

        async def shows(expected: dict[str, Any]) -> bool:
            if (await face.json("/api/v1/running"))["data"]:
                shown.update(await shown_of(face, subscriber, run))
            return shown == expected

        await eventually(lambda: shows(KNOWN), why=lambda: f"not known: {shown}")
        setattr(workspace.world.options, fault, 1.0)
        began = clock.monotonic()
        await eventually(lambda: shows(UNKNOWN), why=lambda: f"not unknown: {shown}")
        assert clock.monotonic() - began < _AT_ONCE_SECONDS
        setattr(workspace.world.options, fault, 0.0)
        await eventually(lambda: shows(KNOWN), why=lambda: f"not known again: {shown}")
