"""``kill -9`` at random moments: what was acknowledged stays, and every run is reported once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from monitor.sandbox.settings import TrafficSettings
from monitor.sandbox.world.faults import parse_faults
from monitor.sandbox.world.records.runs import NativeStatus
from tests.app.eventually import pause
from tests.crash.conftest import ReportCounts
from tests.crash.scenario import FORGED_FROM, scenario

FORGED = 10
_FOR_AGES = 3_600.0


@pytest.mark.parametrize("count", [400, pytest.param(2_000, marks=pytest.mark.soak)])
async def test_kills_in_a_burst_of_callbacks(
    tmp_path: Path, seed: int, report_counts: ReportCounts, count: int
) -> None:
    """Ends that no list shows: every callback acknowledged with 2xx is published."""
    async with scenario(tmp_path, seed=seed) as crash:
        job_groups = crash.start_job_groups(count, work_seconds=(2, 4))
        await crash.until_received("started", job_groups)
        options = crash.workspace.world.options
        options.late_rows, options.late_seconds = 1.0, _FOR_AGES
        await crash.until_ended()
        callbacks = [(str(run.id), str(run.status)) for run in job_groups]
        callbacks += [
            (str(FORGED_FROM + number), NativeStatus.FAILED.value) for number in range(FORGED)
        ]
        crash.chance.shuffle(callbacks)
        sending = asyncio.create_task(crash.sender.send(callbacks))
        for acknowledged in sorted(crash.chance.sample(range(10, count), 3)):
            await crash.until_acknowledged(acknowledged)
            await crash.kill()
        await sending
        await pause(crash.chance.uniform(0, 1))
        await crash.kill()
        events = await crash.check()
        assert len(crash.sender.acknowledged) == count + FORGED
        report_counts(
            "kills in a burst",
            seed=seed,
            acknowledged=count + FORGED,
            events=events,
            kills=crash.kills,
            lost=crash.lost,
        )


@pytest.mark.parametrize("kills", [2, pytest.param(8, marks=pytest.mark.soak)])
async def test_kills_while_polling_under_load(
    tmp_path: Path, seed: int, report_counts: ReportCounts, kills: int
) -> None:
    """Flow runs, plan runs and job groups by the hundred, answers that fail, and no callbacks."""
    load = TrafficSettings(
        flow_runs_per_hour=80, plan_runs_per_hour=40, job_groups_per_hour=200, samples_per_hour=20
    )
    faults = parse_faults(["status_500=0.03,dropped=0.02,shifted_pages=0.3"])
    async with scenario(tmp_path, seed=seed, traffic=load, speed=120, options=faults) as crash:
        for _ in range(kills):
            await pause(crash.chance.uniform(0.2, 1.5))
            await crash.kill()
        crash.workspace.stop_starting()
        await crash.until_ended()
        events = await crash.check()
        runs = sum(crash.workspace.ledger.begun().values())
        assert runs > 25
        report_counts(
            "kills in polling",
            seed=seed,
            runs=runs,
            events=events,
            kills=crash.kills,
            lost=crash.lost,
        )
