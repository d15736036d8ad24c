"""Our clock is set while the daemon runs, as a time service does: nothing is unknown or late."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.sandbox.running.engine import Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from tests.app import fixture
from tests.app.active_run import KNOWN, shown_of, start_run
from tests.app.daemon_http import Face
from tests.app.eventually import eventually, pause
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.clocks import FastClock, SetClock

_SOON_SECONDS = 10.0  # a poll and an evaluation; an end waits for nothing else here


def states(subscriber: Subscriber) -> list[str]:
    """Return every state that was published of the pipelines and the workspace."""
    return [
        json.loads(message.payload)["state"]
        for message in list(subscriber.messages)
        if message.payload
        and message.topic.startswith("dataprep/v1/acme/")
        and message.topic.endswith("/state")
        and "/alert/" not in message.topic
    ]


async def alerts(face: Face) -> list[dict[str, Any]]:
    """Return the alerts but the daemon's own, which names a clock that went ahead by an hour."""
    shown = (await face.json("/api/v1/alerts"))["data"]
    return [alert for alert in shown if alert["rule"] != "monitor_degraded"]


@pytest.mark.parametrize(
    "seconds",
    [
        *(-1.0, 3_600.0, -3_600.0),
        *(pytest.param(seconds, marks=pytest.mark.soak) for seconds in (1.0, 900.0, -900.0)),
    ],
)
async def test_a_set_clock_hides_and_delays_nothing(tmp_path: Path, seconds: float) -> None:
    """By a second, minutes and an hour, both ways: what runs stays known, what fails is reported.

    The alert starts when the run ended, by the workspace's clock, which was not set.
    """
    clock = FastClock(speed=20)
    ours = SetClock(clock)
    workspace = Sandbox(SandboxSettings(traffic=None, schedules_fire=False), clock)
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        fixture.daemon(
            fixture.configuration(
                tmp_path, fixture.workspace_configuration(workspace, url), broker_url=broker.url
            ),
            clock=ours,
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        run, shown = start_run(workspace), dict[str, Any]()

        async def shows_it() -> bool:
            if (await face.json("/api/v1/running"))["data"]:
                shown.update(await shown_of(face, subscriber, run))
            return shown == KNOWN

        await eventually(shows_it, why=lambda: f"not known: {shown}")
        before = len(states(subscriber))
        set_at = clock.monotonic()
        ours.ahead += timedelta(seconds=seconds)
        while clock.monotonic() < set_at + 60:  # longer than a reconciliation takes to repeat
            assert await shown_of(face, subscriber, run) == KNOWN
            await pause(0.05)
        assert "unknown" not in states(subscriber)[before:]
        assert await alerts(face) == []

        began, begun_at = clock.monotonic(), clock.now()
        start_run(workspace, Outcome.FAILED, work_seconds=1)

        async def fires() -> bool:
            return [alert["state"] for alert in await alerts(face)] == ["firing"]

        await eventually(fires, why="no alert")
        assert clock.monotonic() - began < _SOON_SECONDS
        (alert,) = await alerts(face)
        late = datetime.fromisoformat(alert["starts_at"]) - begun_at
        assert timedelta() <= late <= timedelta(seconds=_SOON_SECONDS)
