"""``kill -9`` at random moments: what was acknowledged stays, and every run is reported once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from monitor.sandbox.faults import parse_faults
from monitor.sandbox.records.runs import NativeStatus
from monitor.sandbox.settings import TrafficSettings
from tests.app.eventually import pause
from tests.crash.conftest import Say
from tests.crash.scene import FORGED_FROM, scene

CALLBACKS = 2_000
FORGED = 10
_FOR_AGES = 3_600.0


async def test_kills_in_a_burst_of_callbacks(tmp_path: Path, seed: int, say: Say) -> None:
    """2,000 ends that no list shows: what a callback told and was answered 2xx comes out."""
    async with scene(tmp_path, seed=seed) as one:
        job_groups = one.start_job_groups(CALLBACKS, work_seconds=(2, 4))
        await one.until_received("started", job_groups)
        options = one.workspace.world.options
        options.late_rows, options.late_seconds = 1.0, _FOR_AGES
        await one.until_ended()
        callbacks = [(str(run.id), str(run.status)) for run in job_groups]
        callbacks += [
            (str(FORGED_FROM + number), NativeStatus.FAILED.value) for number in range(FORGED)
        ]
        one.chance.shuffle(callbacks)
        sending = asyncio.create_task(one.sender.send(callbacks))
        for moment in sorted(one.chance.sample(range(10, CALLBACKS), 3)):
            await one.until_acknowledged(moment)
            await one.kill()
        await sending
        for _ in range(2):
            await pause(one.chance.uniform(0, 1))
            await one.kill()
        events = await one.judge()
        assert len(one.sender.acknowledged) == CALLBACKS + FORGED
        say(
            "kills in a burst",
            seed=seed,
            acknowledged=CALLBACKS + FORGED,
            events=events,
            kills=one.kills,
            lost=one.lost,
        )


async def test_kills_while_polling_under_load(tmp_path: Path, seed: int, say: Say) -> None:
    """Flow runs, plan runs and job groups by the hundred, answers that fail, and no callbacks."""
    load = TrafficSettings(
        flow_runs_per_hour=80, plan_runs_per_hour=40, job_groups_per_hour=200, samples_per_hour=20
    )
    faults = parse_faults(["status_500=0.03,dropped=0.02,shifted_pages=0.3"])
    async with scene(tmp_path, seed=seed, traffic=load, speed=120, options=faults) as one:
        for _ in range(4):
            await pause(one.chance.uniform(0.2, 1.5))
            await one.kill()
        one.workspace.stop_starting()
        await one.until_ended()
        events = await one.judge()
        runs = sum(one.workspace.ledger.begun().values())
        assert runs > 50
        say("kills in polling", seed=seed, runs=runs, events=events, kills=one.kills, lost=one.lost)
