"""What alerting keeps while a daemon runs on a clock that is far ahead."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from monitor.sandbox.running.engine import Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from tests.app import fixture
from tests.app.active_run import start_run
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.test_cluster_silences import said
from tests.clocks import FastClock, SetClock

_SWEPT_SECONDS = 150.0  # within which alerting drops what is old


async def test_silences_and_past_alerts_outlast_a_start_with_a_clock_far_ahead(
    tmp_path: Path,
) -> None:
    """A life that begins 40 days ahead deletes nothing that the next one still needs."""
    clock = FastClock(speed=20)
    ours = SetClock(clock)
    workspace = Sandbox(SandboxSettings(traffic=None, schedules_fire=False), clock)
    async with fixture.started(workspace) as url:
        settings = fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url))
        async with fixture.daemon(settings, clock=ours) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            silence = await said(face)
            start_run(workspace, Outcome.FAILED, work_seconds=1)
            await eventually(lambda: _has_failed(face, "firing"), why="no alert fires")
            start_run(workspace, work_seconds=1)
            await eventually(lambda: _has_failed(face, "resolved"), why="the alert stays")
        ours.ahead = timedelta(days=40)
        async with fixture.daemon(settings, clock=ours) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            end = clock.monotonic() + _SWEPT_SECONDS
            await eventually(lambda: clock.monotonic() > end, why="the clock stands")
        ours.ahead = timedelta()
        async with fixture.daemon(settings, clock=ours) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            assert [row["id"] for row in (await face.json("/api/v1/silences"))["data"]] == [silence]
            assert await _has_failed(face, "resolved")


async def _has_failed(face: Face, state: str) -> bool:
    alerts = (await face.json("/api/v1/alerts"))["data"]
    return any(alert["rule"] == "run_failed" and alert["state"] == state for alert in alerts)
