"""A workspace that allows no requests for an hour: who says so, how soon, and until when."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.fixture import daemon, started
from tests.app.test_silent_workspace import firing, following, is_reachable
from tests.cli.command_process import CommandProcess
from tests.clocks import FastClock
from tests.polling.gateway import Gateway, gateway_to

_HOUR = 3_600
_LIMIT_SECONDS = 120.0
_WITHIN_SECONDS = 120.0  # of the machine's clock, which four of the test's outrun unless it is busy
_RULE = "workspace_unreachable"


@dataclass(frozen=True)
class Paused:
    """A daemon behind a gateway, at rest after its first look."""

    workspace: Sandbox
    gateway: Gateway
    clock: FastClock
    face: Face

    async def seconds_until_reported(self, began: float) -> float:
        async def has_fired() -> bool:
            return _RULE in await firing(self.face)

        await eventually(has_fired, why="no alert", within_seconds=_WITHIN_SECONDS)
        return self.clock.monotonic() - began

    async def texts(self) -> dict[str, str]:
        """Return what people read of it, by where."""
        face, flow = self.face, next(self.workspace.world.flows.live())
        (alert,) = (await face.json("/api/v1/alerts?state=firing"))["data"]
        with contextlib.closing(CommandProcess()) as command:
            status = await command("status", "--url", face.url, config=None)
            words = ("explain", "flow", str(flow.id), "--url", face.url)
            explained = await command(*words, config=None)
        assert status.code == 1
        return {
            "alert": alert["annotations"]["description"],
            "page": await face.text("/workspaces/acme"),
            "status": status.out,
            "explain": explained.out,
        }

    async def until_over(self) -> None:
        async def is_over() -> bool:
            return await is_reachable(self.face) and not await firing(self.face)

        await eventually(is_over, why="it does not end", within_seconds=_WITHIN_SECONDS)


@pytest.fixture
async def paused(tmp_path: Path) -> AsyncIterator[Paused]:
    clock = FastClock()
    workspace = Sandbox(SandboxSettings(traffic=None, schedules_fire=False), clock)
    async with (
        started(workspace) as behind,
        gateway_to(behind) as gateway,
        daemon(following(tmp_path, workspace, gateway.url), clock=clock) as face,
    ):

        async def is_at_rest() -> bool:
            found = await face.json("/api/v1/status")
            return bool(found["pipelines"]) and not found["reading"]

        await eventually(is_at_rest, why="its first look does not end")
        yield Paused(workspace, gateway, clock, face)


def window(workspace: Sandbox) -> dict[str, str]:
    """Return the headers of a quota that is used up for an hour."""
    reset = int((workspace.world.now().timestamp() + _HOUR) * 1_000)
    named = {"limit": 60, "remaining": 0, "reset": reset}
    return {f"x-rate-limit-workspace-{name}": str(value) for name, value in named.items()}


def assert_named(texts: dict[str, str], earliest: datetime, latest: datetime) -> None:
    """Each place names an end, and none but one of a refusal between these two."""
    seconds = int((latest - earliest).total_seconds()) + 2
    ends = {f"{earliest + timedelta(seconds=second):%H:%M:%S}" for second in range(-1, seconds)}
    named = {place: re.findall(r"until (\d\d:\d\d:\d\d)Z", text) for place, text in texts.items()}
    assert all(named.values()), texts
    assert {end for found in named.values() for end in found} <= ends


async def test_a_refusal_for_an_hour_is_reported_with_its_end(paused: Paused) -> None:
    """Alert, page, `status` and `explain` say so within two minutes; one answer ends all of it."""
    gateway, workspace, clock = paused.gateway, paused.workspace, paused.clock
    gateway.page = lambda: web.Response(
        status=429, headers={"Retry-After": str(_HOUR), "Date": workspace.world.date()}
    )
    await eventually(lambda: bool(gateway.requests), why="nothing was asked")
    began, end = clock.monotonic(), clock.now() + timedelta(seconds=_HOUR)

    assert await paused.seconds_until_reported(began) < _LIMIT_SECONDS
    assert_named(await paused.texts(), end, clock.now() + timedelta(seconds=_HOUR))
    gateway.page = None
    await paused.until_over()


async def test_a_quota_used_up_for_an_hour_is_reported_with_its_end(paused: Paused) -> None:
    """Every answer is a success, and the last one announces that no other will be given."""
    gateway, clock = paused.gateway, paused.clock
    end = clock.now() + timedelta(seconds=_HOUR)
    gateway.headers = window(paused.workspace)
    before = gateway.passed
    await eventually(lambda: gateway.passed > before, why="nothing was asked")
    began = clock.monotonic()

    assert await paused.seconds_until_reported(began) < _LIMIT_SECONDS
    assert_named(await paused.texts(), end, end)
    gateway.headers = {}
    await paused.until_over()
