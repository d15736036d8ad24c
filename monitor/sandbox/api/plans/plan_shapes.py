"""The payloads of plans: rows, the full read of a plan or snapshot, nodes and edges."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.people.people import people_of, person
from monitor.sandbox.api.response.kinds import (
    COLLABORATOR,
    OWNER,
    READ_ONLY,
    Association,
    Resource,
    View,
    named,
    role_of,
)
from monitor.sandbox.api.response.rendering import NAMED, OWN, kept, reference, stamps
from monitor.sandbox.api.runs.run_shapes import flow_name, plan_run
from monitor.sandbox.world.records.objects import (
    HttpTask,
    Plan,
    PlanEdge,
    PlanNode,
    PlanSnapshot,
    Record,
)
from monitor.sandbox.world.records.parts import PlanOverride
from monitor.sandbox.world.records.runs import PlanSnapshotRun, PlanTaskRun
from monitor.sandbox.world.shelves import WORKSPACE_ID

# The full read of a snapshot shows its newest runs, node by node.
RUNS_OF_A_SNAPSHOT = 25
POLICY_TAGS = {OWNER: "plan_owner", COLLABORATOR: "plan_editor", READ_ONLY: "plan_viewer"}


def runs_of(view: View, plan: Plan | PlanSnapshot) -> Sequence[PlanSnapshotRun]:
    """Return the runs of a plan, or those of one snapshot, oldest first."""
    if isinstance(plan, Plan):
        return view.plan_runs.get(plan.id, ())
    runs = view.plan_runs.get(plan.original_plan_id, ())
    return [run for run in runs if run.snapshot_id == plan.id]


def original_id(plan: Plan | PlanSnapshot) -> int | None:
    """Return the plan that this is a snapshot of, or was said to be made of."""
    return plan.original_plan_id


def plan(view: View, plan: Plan | PlanSnapshot) -> dict[str, Json]:
    """Return a row of the plan list; a snapshot names the plan that it is one of."""
    runs = runs_of(view, plan)
    return {
        **stamps(plan),
        "name": plan.name,
        "description": plan.description if isinstance(plan, Plan) else None,
        "workspace": reference(WORKSPACE_ID),
        "snapshotted": isinstance(plan, PlanSnapshot),
        "originalPlanId": original_id(plan),
        "originalPlan": reference(original_id(plan)),
        "notificationsEnabled": plan.notifications_enabled if isinstance(plan, Plan) else False,
        "planSnapshotRunCount": len(runs),
        "latestPlanSnapshot": reference(runs[-1].snapshot_id) if runs else None,
        "latestPlanSnapshotRun": plan_run(view, runs[-1]) if runs else None,
    }


def plan_full(view: View, other_plan: Plan | PlanSnapshot) -> dict[str, Json]:
    """Return a plan with its nodes, edges and snapshots."""
    world = view.world
    if isinstance(other_plan, Plan):
        nodes: Sequence[PlanNode] = world.nodes_of(other_plan.id)
        edges: Sequence[PlanEdge] = world.edges_of(other_plan.id)
        snapshots = world.snapshots_of(other_plan.id)
        task_runs: dict[int, list[PlanTaskRun]] = {}
    else:
        nodes, edges, snapshots = other_plan.nodes, other_plan.edges, []
        task_runs = _task_runs(view, other_plan)
    return {
        **plan(view, other_plan),
        "cpProject": None,
        "planNodes": {
            "data": [plan_node(view, node, task_runs=task_runs.get(node.id)) for node in nodes]
        },
        "planEdges": {"data": [view.table["planedges"].render(view, edge) for edge in edges]},
        "planSnapshots": {"data": [plan(view, snapshot) for snapshot in snapshots]},
    }


def associated_people(view: View, plan: Plan | PlanSnapshot) -> list[Json]:
    """Return who may do what with a plan, its owner first."""
    owner = view.world.plans.get(plan.original_plan_id) if isinstance(plan, PlanSnapshot) else plan
    if owner is None:
        return []
    return [
        {
            "id": who.id,
            "email": who.email,
            "name": who.name,
            "authorizationPermission": {
                "isCreatedBy": who.id == plan.creator_id,
                "policyName": None,
                "policyTag": POLICY_TAGS[role_of(owner, who.id)],
                "workspaceAdmin": who.is_admin,
            },
        }
        for who in people_of(view, owner)
    ]


def creator_info(view: View, record: Record) -> Json:
    """Return a creator with name and address, as the full read shows it."""
    who = view.world.people.get(record.creator_id, with_deleted=True)
    if who is None:
        return reference(record.creator_id)
    shown = person(view, who)
    return {name: shown[name] for name in ("id", "email", "name")}


def plan_node(
    view: View, plan_node: PlanNode, *, task_runs: Sequence[PlanTaskRun] | None = None
) -> dict[str, Json]:
    """Return a node with its task; in a snapshot also with what its runs did."""
    document: dict[str, Json] = {
        **stamps(plan_node),
        "plan": reference(plan_node.plan_id),
        **kept(plan_node, "handle", "name", "taskType"),
        "coordinates": {"x": plan_node.x, "y": plan_node.y},
    }
    if plan_node.flow_id is not None:
        document["task"] = {
            "flow": {"id": plan_node.flow_id, "name": flow_name(view, plan_node.flow_id)},
            "flowNodes": [reference(node_id) for node_id in plan_node.flow_node_ids],
            "webhooksEnabled": plan_node.webhooks_enabled,
        }
    if plan_node.http_task is not None:
        document["httpTask"] = _http_task(plan_node, plan_node.http_task)
    document["planOverrides"] = {
        "data": [
            {"id": override.id, "overrideKey": override.override_key, "value": override.value}
            for override in _overrides_of(view, plan_node)
        ]
    }
    if task_runs is not None:
        document["planTaskSnapshotRuns"] = {"data": [_task_run(view, run) for run in task_runs]}
    return document


def _overrides_of(view: View, plan_node: PlanNode) -> list[PlanOverride]:
    return view.world.shelf(PlanOverride).having("plan_node_id", plan_node.id)


def _http_task(node: PlanNode, task: HttpTask) -> dict[str, Json]:
    return {
        "id": node.id,
        "type": "basic",
        **kept(
            task, "method", "url", "headers", "body", "secretKey", "sslVerification", "maxRetries"
        ),
        "sampleResponseBody": "",
        "sampleResponseHeaders": {},
        "shouldUpdateSampleResponse": False,
        "planNode": reference(node.id),
        **kept(node, "createdAt", "updatedAt"),
    }


def _task_runs(view: View, snapshot: PlanSnapshot) -> dict[int, list[PlanTaskRun]]:
    found: dict[int, list[PlanTaskRun]] = {node.id: [] for node in snapshot.nodes}
    for run in runs_of(view, snapshot)[-RUNS_OF_A_SNAPSHOT:]:
        for task_run in view.world.task_runs_of(run.id):
            found.setdefault(task_run.plan_node_id, []).append(task_run)
    return found


def _task_run(view: View, plan_task_run: PlanTaskRun) -> dict[str, Json]:
    flow_run = (
        None
        if plan_task_run.flow_run_id is None
        else view.world.flow_runs.get(plan_task_run.flow_run_id)
    )
    plan_run = view.world.plan_runs.get(plan_task_run.plan_run_id)
    is_running = plan_run is not None and not plan_run.status.is_over
    is_late = is_running and view.world.options.late_plan_results
    job_group_ids = [] if flow_run is None or is_late else flow_run.job_group_ids
    return {
        **kept(plan_task_run, "id", "status", "createdAt", "updatedAt", "startedAt", "finishedAt"),
        "planNode": reference(plan_task_run.plan_node_id),
        "planSnapshotRun": reference(plan_task_run.plan_run_id),
        "planFlowTaskRunResults": {
            "data": [
                {"jobGroup": reference(group_id), "flowRun": reference(plan_task_run.flow_run_id)}
                for group_id in job_group_ids
            ]
        },
    }


def _latest_run(view: View, plan: Plan | PlanSnapshot) -> PlanSnapshotRun | None:
    runs = runs_of(view, plan)
    return runs[-1] if runs else None


PLAN_RESOURCES: dict[str, Resource] = {
    "plans": Resource(
        plural="plans",
        render=plan,
        columns={
            **NAMED,
            "planSnapshotRunCount": lambda view, record: len(runs_of(view, record)),
        },
        associations=named(
            *OWN,
            Association("latestPlanSnapshotRun", _latest_run, target="plansnapshotruns"),
            Association("planSnapshotRuns", runs_of, many=True),
            Association(
                "planSnapshots",
                lambda view, record: view.world.snapshots_of(record.id),
                target="plans",
                many=True,
            ),
            Association(
                "planNodes",
                lambda view, record: (
                    record.nodes
                    if isinstance(record, PlanSnapshot)
                    else view.world.nodes_of(record.id)
                ),
                many=True,
            ),
            Association(
                "planEdges",
                lambda view, record: (
                    record.edges
                    if isinstance(record, PlanSnapshot)
                    else view.world.edges_of(record.id)
                ),
                many=True,
            ),
        ),
        extra_fields=frozenset(
            {"associatedPeople", "cpProject", "planEdges", "planNodes", "planSnapshots"}
        ),
    ),
    "plannodes": Resource(
        plural="plannodes",
        render=plan_node,
        columns=NAMED,
        associations=named(
            *OWN,
            Association(
                "plan",
                lambda view, record: view.world.plans.get(record.plan_id, with_deleted=True),
                target="plans",
            ),
            Association("planOverrides", _overrides_of, many=True),
        ),
    ),
}
