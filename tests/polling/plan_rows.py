"""Plans and their records as a workspace shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monitor.model.runs import RunKind
from tests.polling.conftest import Scenario
from tests.polling.tiny_workspace import TinyWorkspace

PLAN, SNAPSHOT, FLOW = 13, 900, 11


def put_plan(workspace: TinyWorkspace, plan_id: int = PLAN, name: str = "Nightly") -> None:
    workspace.tables["plans"][plan_id] = {"id": plan_id, "name": name}


def put_snapshot(
    workspace: TinyWorkspace,
    children: Mapping[int, Sequence[int]] | None = None,
    *,
    snapshot_id: int = SNAPSHOT,
    plan_id: int = PLAN,
    flow_ids: Sequence[int] = (FLOW,),
) -> None:
    """Write the record of a snapshot; ``children`` are job groups by plan run."""
    workspace.full_plans[snapshot_id] = {
        "id": snapshot_id,
        "name": "copy",
        "snapshotted": True,
        "originalPlanId": plan_id,
        "planNodes": {
            "data": [
                node(50 + number, flow_id, children if number == 0 else None)
                for number, flow_id in enumerate(flow_ids)
            ]
        },
    }


def node(
    node_id: int, flow_id: int, children: Mapping[int, Sequence[int]] | None = None
) -> dict[str, Any]:
    task_runs = [
        {
            "id": plan_run_id,
            "planSnapshotRun": {"id": plan_run_id},
            "planFlowTaskRunResults": {
                "data": [{"id": number, "jobGroup": {"id": number}} for number in job_group_ids]
            },
        }
        for plan_run_id, job_group_ids in (children or {}).items()
    ]
    return {
        "id": node_id,
        "taskType": "flow",
        "task": {"flow": {"id": flow_id}},
        "planTaskSnapshotRuns": {"data": task_runs},
    }


async def begin_plan_run(scenario: Scenario, workspace: TinyWorkspace, run_id: int = 7) -> None:
    """Let the monitor observe an active plan run of the snapshot, whose record is empty so far."""
    put_plan(workspace)
    if SNAPSHOT not in workspace.full_plans:
        put_snapshot(workspace)
    workspace.put_plan_run(run_id, plan={"id": SNAPSHOT})
    await scenario.polls.plan_runs.poll()


async def plan_run_of(
    scenario: Scenario, run_id: int, kind: RunKind = RunKind.JOB_GROUP
) -> str | None:
    state = await scenario.state(run_id, kind)
    assert state is not None
    return state.parents.plan_run
