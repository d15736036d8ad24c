"""A workspace that accepts and never answers: how long until its alert, with the default settings.

The time-outs of the transport run by the machine's clock. They are the default ones, divided by the
speed of the test's.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from yarl import URL

from monitor.config import Configuration
from monitor.polling.settings import PollSettings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from monitor.workspace.settings import WorkspaceSettings
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.fixture import configuration, daemon, started, workspace_configuration
from tests.clocks import FastClock
from tests.servers import Relay

_SPEED = 10
_DEFAULTS = WorkspaceSettings(name="acme", url="")
_LIMIT_SECONDS = 120.0
_RULE = "workspace_unreachable"


@pytest.fixture
def clock() -> FastClock:
    return FastClock(speed=_SPEED)


@pytest.fixture
def workspace(clock: FastClock) -> Sandbox:
    return Sandbox(SandboxSettings(traffic=None, schedules_fire=False), clock)


def following(folder: Path, workspace: Sandbox, url: str, *, speed: float = 1) -> Configuration:
    """Return the default settings of a daemon that follows the sandbox, time-outs by ``speed``."""
    followed = workspace_configuration(workspace, url)
    settings = msgspec.structs.replace(
        _DEFAULTS,
        url=url,
        token=followed.workspace.token,
        connect_timeout_seconds=_DEFAULTS.connect_timeout_seconds / speed,
        read_timeout_seconds=_DEFAULTS.read_timeout_seconds / speed,
        total_timeout_seconds=_DEFAULTS.total_timeout_seconds / speed,
    )
    followed = msgspec.structs.replace(followed, workspace=settings, poll=PollSettings())
    return configuration(folder, followed)


async def firing(face: Face) -> list[str]:
    """Return the rules of the alerts that fire."""
    alerts = (await face.json("/api/v1/alerts"))["data"]
    return [alert["rule"] for alert in alerts if alert["state"] == "firing"]


async def is_reachable(face: Face) -> bool:
    (row,) = (await face.json("/api/v1/workspaces"))["data"]
    return bool(row["reachability"] == "reachable")


async def until(clock: FastClock, at: float) -> None:
    await eventually(lambda: clock.monotonic() >= at, why="time does not go on")


@pytest.mark.parametrize(
    "is_from_the_start", [False, True], ids=["later", "from the first request"]
)
async def test_a_silent_workspace_is_an_alert_within_two_minutes(
    tmp_path: Path, workspace: Sandbox, clock: FastClock, *, is_from_the_start: bool
) -> None:
    """From its last answer, with nothing running and two polls a minute, or from the first request.

    Not from the start of the daemon, which takes as long as the machine needs.
    """
    async with started(workspace) as url, Relay(URL(url).port or 0) as relay:
        relay.is_deaf = is_from_the_start
        settings = following(tmp_path, workspace, f"http://127.0.0.1:{relay.port}", speed=_SPEED)
        async with daemon(settings, clock=clock) as face:
            await eventually(lambda: relay.has_more_than(0), why="nothing was asked")
            if not is_from_the_start:
                await eventually(lambda: is_reachable(face), why="never reachable")
                relay.is_deaf = True
            began = clock.monotonic()

            async def has_fired() -> bool:
                return _RULE in await firing(face)

            await eventually(has_fired, why="no alert")
            assert clock.monotonic() - began < _LIMIT_SECONDS


async def test_a_slow_workspace_is_no_alert(
    tmp_path: Path, workspace: Sandbox, clock: FastClock
) -> None:
    """Answers that take 25 s each, and 40 s in which none comes, raise nothing."""
    options = workspace.world.options
    async with (
        started(workspace) as url,
        daemon(following(tmp_path, workspace, url), clock=clock) as face,
    ):
        await eventually(lambda: is_reachable(face), why="never reachable")
        options.latency = 25.0
        began = clock.monotonic()
        await until(clock, began + 40)
        # As the client does when the time-out of a read is over.
        options.latency, options.dropped = _DEFAULTS.read_timeout_seconds, 1.0
        await until(clock, began + 80)
        options.latency, options.dropped = 25.0, 0.0
        for seconds in range(80, 180, 5):
            await until(clock, began + seconds)
            assert await firing(face) == []
