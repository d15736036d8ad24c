"""Flow runs with their job groups, as the workspace of a test shows them."""

from __future__ import annotations

from typing import Any

from monitor.model.runs import RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario
from tests.polling.tiny_workspace import TinyWorkspace

FLOW_RUN = RunKind.FLOW_RUN
RECIPES = (45, 46)


def put_run(
    workspace: TinyWorkspace,
    run_id: int,
    *,
    recipes: tuple[int, ...] = RECIPES,
    part: str = "Complete",
    status: str | None = "Complete",
    ranfor: str = "recipe",
) -> None:
    """Write a flow run and a job group for each of its recipes; ``part`` is what the first is."""
    if status is not None:
        workspace.put_flow_run(run_id, status)
    for place, recipe in enumerate(recipes):
        workspace.put_job_group(
            10 * run_id + place,
            part if place == 0 else "Complete",
            flowRun={"id": run_id},
            ranfor=ranfor,
            wrangledDataset={"id": recipe, "flow": {"id": 11, "name": "Sales"}},
        )


async def poll_all(scenario: Scenario) -> None:
    """Poll for changes, then read every flow run whose time has come."""
    await scenario.polls.changes.poll()
    await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)


async def run_once(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, run_id: int
) -> tuple[int, list[str]]:
    """Let a flow run run and end; return the requests about it and its last event."""
    put_run(workspace, run_id, part="InProgress", status="InProgress")
    await poll_all(scenario)
    await clock.advance(60)
    put_run(workspace, run_id)
    await poll_all(scenario)
    return reads(workspace, run_id), (await scenario.run_events(FLOW_RUN))[-1:]


def reads(workspace: TinyWorkspace, run_id: int) -> int:
    return workspace.count(f"flowRuns/{run_id}(/.*)?")


async def usual(scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock) -> None:
    """Let three alike runs of the flow run and end, and read each."""
    for run_id in (71, 72, 73):
        await run_once(scenario, workspace, clock, run_id)


async def end_usual(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, run_id: int, **fields: Any
) -> None:
    """Let the job groups of a flow run end, and poll until its end is known from them."""
    put_run(workspace, run_id, part="InProgress", status="InProgress")
    await poll_all(scenario)
    await clock.advance(60)
    put_run(workspace, run_id, **fields)
    await poll_all(scenario)
    await clock.advance(5)
    await scenario.polls.changes.poll()
    await scenario.poll("flow_runs")
