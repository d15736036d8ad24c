"""Deletes everything that a busy workspace has, piece by piece, while it works."""

from __future__ import annotations

import random

import aiohttp
import pytest

from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings
from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    ImportedDataset,
    OutputObject,
    Plan,
    PlanNode,
    Publication,
    Recipe,
    Record,
    Schedule,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import Folder
from monitor.sandbox.world.records.runs import NativeStatus
from tests.clocks import ManualClock

PATHS: dict[type[Record], str] = {
    Publication: "publications",
    WriteSetting: "writeSettings",
    OutputObject: "outputObjects",
    Recipe: "wrangledDatasets",
    ImportedDataset: "importedDatasets",
    PlanNode: "planNodes",
    Schedule: "schedules",
    Connection: "connections",
    Folder: "folders",
    Plan: "plans",
    Flow: "flows",
}
PARTS_OF_JOB_GROUPS = (
    "status",
    "jobs",
    "inputs",
    "outputs",
    "publications",
    "profile",
    "profileResults",
)
EMBEDS = "embed=wrangledDataset.flow,wrangledDataset.recipe,creator,updater,flowRun,jobs"
CYCLES = 200


async def delete_one(
    session: aiohttp.ClientSession, sandbox: Sandbox, chance: random.Random
) -> int:
    """Delete something, whatever it is, and return the answer's status."""
    kinds = [kind for kind in PATHS if any(sandbox.world.shelf(kind).live())]
    if not kinds:
        return 204
    kind = chance.choice(kinds)
    record = chance.choice(list(sandbox.world.shelf(kind).live()))
    async with session.delete(f"{sandbox.url}/v4/{PATHS[kind]}/{record.id}") as answer:
        return answer.status


async def read_what_is_left(session: aiohttp.ClientSession, sandbox: Sandbox) -> set[int]:
    """Read all that shows runs whose flows, recipes and data are gone."""
    world = sandbox.world
    groups, flow_runs = list(world.job_groups)[:30], list(world.flow_runs)[:10]
    plan_runs = list(world.plan_runs)[:10]
    paths = [
        "jobLibrary?runBy=all&embed=wrangledDataset.flow,creator,flowRun,jobs",
        "planSnapshotRuns?runBy=all&embed=plan",
        "usages/jobMetrics/compute/from/2020-01-01/to/2030-01-01",
        *(f"jobGroups/{group.id}?{EMBEDS}" for group in groups),
        *(f"jobGroups/{group.id}/{part}" for group in groups for part in PARTS_OF_JOB_GROUPS),
        *(f"flowRuns/{run.id}?embed=flow,jobGroups" for run in flow_runs),
        *(f"flowRuns/{run.id}/jobGroups" for run in flow_runs),
        *(f"planSnapshotRuns/{run.id}" for run in plan_runs),
        *(f"planSnapshotRuns/{run.id}/schedule" for run in plan_runs),
        *(f"plans/{run.snapshot_id}/full" for run in plan_runs),
    ]
    statuses = set()
    for path in paths:
        async with session.get(f"{sandbox.url}/v4/{path}") as answer:
            statuses.add(answer.status)
    return statuses


@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_that_is_deleted_stops_the_work(seed: int) -> None:
    """Runs end and no answer is a 5xx, although what they run is gone."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    clock = ManualClock()
    sandbox = Sandbox(SandboxSettings(seed=seed, work=WorkSettings(speed=5)), clock)
    await sandbox.start(0)
    statuses = set()
    try:
        headers = {"Authorization": f"Bearer {sandbox.token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            await clock.advance(120)
            for _ in range(CYCLES):
                statuses.add(await delete_one(session, sandbox, chance))
                await clock.advance(chance.choice([1, 5, 20]))
            sandbox.stop_starting()
            await clock.advance(3_600)
            statuses |= await read_what_is_left(session, sandbox)
    finally:
        await sandbox.stop()
    assert statuses <= {200, 204, 400, 403, 404}
    assert sandbox.ledger.transitions()
    unfinished = [
        run
        for run in (*sandbox.world.job_groups, *sandbox.world.flow_runs, *sandbox.world.plan_runs)
        if run.status in {NativeStatus.CREATED, NativeStatus.IN_PROGRESS}
    ]
    assert unfinished == []
