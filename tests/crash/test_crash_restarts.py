"""Restarts under load: the daemon reports what happened in the workspace, and nothing else."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from monitor.sandbox.settings import TrafficSettings
from monitor.sandbox.world.faults import parse_faults
from tests.app.eventually import eventually, pause
from tests.crash.conftest import ReportCounts
from tests.crash.scenario import Scenario, scenario

# Operation -> since when it is refused; only a poll of its own finds that out.
WITHHELD = {"listApiAccessTokens": 0.0, "countOutputObjects": 0.0}


def workspace_events(crash: Scenario) -> list[bytes]:
    """Return the received events of the workspace itself."""
    received = crash.subscriber.messages
    return [message.payload for message in received if "/acme/event/" in message.topic]


async def knows_what_is_withheld(crash: Scenario) -> bool:
    """True once the first life has read everything."""
    capability = "dataprep_capability"
    return await crash.daemon.face.shows(capability, 0, workspace="acme", capability="read_tokens")


@pytest.mark.parametrize("restarts", [4, pytest.param(20, marks=pytest.mark.soak)])
async def test_restarts_report_nothing_of_their_own(
    tmp_path: Path, seed: int, report_counts: ReportCounts, restarts: int
) -> None:
    """Every second one is a kill: no change of the workspace, no run and no end is made up."""
    load = TrafficSettings(
        flow_runs_per_hour=40, plan_runs_per_hour=20, job_groups_per_hour=100, samples_per_hour=10
    )
    faults = parse_faults(["status_500=0.05,dropped=0.03,shifted_pages=0.3"])
    faults.lose.update(WITHHELD)
    async with scenario(tmp_path, seed=seed, traffic=load, speed=120, options=faults) as crash:
        await eventually(
            lambda: knows_what_is_withheld(crash), why=lambda: crash.daemon.log[-2_000:]
        )
        for number in range(restarts):
            await pause(crash.chance.uniform(0.2, 1.0))
            if number % 2:
                await crash.kill()
            else:
                assert await crash.daemon.end(signal.SIGTERM) == 0
                await crash.daemon.start()
        crash.workspace.stop_starting()
        await crash.until_ended()
        events = await crash.check()
        assert workspace_events(crash) == []
        report_counts(
            "restarts",
            seed=seed,
            restarts=restarts,
            events=events,
            lost=crash.lost,
        )
