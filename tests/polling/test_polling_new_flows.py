"""Flows that were never seen before: how soon their ends are known, and what is read of them."""

from __future__ import annotations

import asyncio

from monitor.catalogue.operations import Edition
from monitor.model.runs import RunKind
from tests.app.eventually import pause
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario
from tests.polling.tiny_workspace import TinyWorkspace

_RUNS = range(100, 160)
_BUDGET = 120.0
_STEP_SECONDS = 0.05


def put(workspace: TinyWorkspace, run_id: int, status: str) -> None:
    workspace.put_flow_run(run_id, status)
    workspace.put_job_group(
        run_id,
        status,
        flowRun={"id": run_id},
        wrangledDataset={"id": run_id, "flow": {"id": run_id, "name": f"Flow {run_id}"}},
    )


async def poll_until_done(scenario: Scenario, clock: ManualClock, name: str) -> float:
    """Run a poll, which waits for its turns in the budget; return how many seconds it took."""
    running = asyncio.create_task(scenario.poll(name))
    began = clock.monotonic()
    while not running.done():
        await clock.advance(_STEP_SECONDS)
        await pause(0.001)  # requests take their time too
    await running
    return clock.monotonic() - began


async def ends(scenario: Scenario) -> int:
    events = await scenario.run_events(RunKind.FLOW_RUN)
    return sum(event.endswith(":succeeded") for event in events)


async def test_a_burst_of_new_flows_takes_a_read_each_and_their_lists_later(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """While ends wait for room, a status comes before a list; each list is read afterwards."""
    unbegun.requests_per_minute = _BUDGET
    await unbegun.restart(Edition.RL)
    for run_id in _RUNS:
        put(workspace, run_id, "InProgress")
    await unbegun.poll("changes")
    await clock.advance(60)
    for run_id in _RUNS:
        put(workspace, run_id, "Complete")
    await unbegun.poll("changes")
    seconds = 0.0
    while await ends(unbegun) < len(_RUNS):
        seconds += await poll_until_done(unbegun, clock, "flow_runs")
    reads = workspace.count("flowRuns/.*")
    assert reads < 1.4 * len(_RUNS)
    assert seconds < 1.2 * reads * 60 / _BUDGET

    for _ in range(len(_RUNS)):
        await clock.advance(60)
        await poll_until_done(unbegun, clock, "derived_flow_runs")
    assert all(workspace.count(f"flowRuns/{run_id}/jobGroups") == 1 for run_id in _RUNS)
    assert await ends(unbegun) == len(_RUNS)
