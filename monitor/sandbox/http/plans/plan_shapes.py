"""The payloads of plans: rows, the full read of a plan or snapshot, nodes and edges."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.kinds.roles import COLLABORATOR, OWNER, READ_ONLY, role_of
from monitor.sandbox.http.kinds.shapes import NAMED, OWN, STAMPS, stamps
from monitor.sandbox.http.people.person_shapes import people_of, person
from monitor.sandbox.http.runs.run_shapes import flow_name, plan_run
from monitor.sandbox.http.showing.rendering import Association, Resource, View, reference, stamp
from monitor.sandbox.records.objects import HttpTask, Plan, PlanEdge, PlanNode, PlanSnapshot, Record
from monitor.sandbox.records.plans import PlanOverride
from monitor.sandbox.records.runs import PlanSnapshotRun, PlanTaskRun
from monitor.sandbox.world import WORKSPACE_ID

# The full read of a snapshot tells what its newest runs did, node by node.
RUNS_TOLD_BY_A_SNAPSHOT = 25
POLICY_TAGS = {OWNER: "plan_owner", COLLABORATOR: "plan_editor", READ_ONLY: "plan_viewer"}


def runs_of(view: View, one: Plan | PlanSnapshot) -> Sequence[PlanSnapshotRun]:
    """Return the runs of a plan, or those of one snapshot, oldest first."""
    if isinstance(one, Plan):
        return view.plan_runs.get(one.id, ())
    runs = view.plan_runs.get(one.original_plan_id, ())
    return [run for run in runs if run.snapshot_id == one.id]


def original_id(one: Plan | PlanSnapshot) -> int | None:
    """Return of which plan this is a snapshot, or was said to be made."""
    return one.original_plan_id


def plan(view: View, one: Plan | PlanSnapshot) -> dict[str, Json]:
    """Return a row of the plan list; a snapshot names the plan that it is one of."""
    runs = runs_of(view, one)
    return {
        **stamps(one),
        "name": one.name,
        "description": one.description if isinstance(one, Plan) else None,
        "workspace": reference(WORKSPACE_ID),
        "snapshotted": isinstance(one, PlanSnapshot),
        "originalPlanId": original_id(one),
        "originalPlan": reference(original_id(one)),
        "notificationsEnabled": one.notifications_enabled if isinstance(one, Plan) else False,
        "planSnapshotRunCount": len(runs),
        "latestPlanSnapshot": reference(runs[-1].snapshot_id) if runs else None,
        "latestPlanSnapshotRun": plan_run(view, runs[-1]) if runs else None,
    }


def plan_full(view: View, one: Plan | PlanSnapshot) -> dict[str, Json]:
    """Return a plan with its nodes, edges and snapshots."""
    world = view.world
    if isinstance(one, Plan):
        nodes: Sequence[PlanNode] = world.nodes_of(one.id)
        edges: Sequence[PlanEdge] = world.edges_of(one.id)
        snapshots = world.snapshots_of(one.id)
        task_runs: dict[int, list[PlanTaskRun]] = {}
    else:
        nodes, edges, snapshots = one.nodes, one.edges, []
        task_runs = _task_runs(view, one)
    return {
        **plan(view, one),
        "cpProject": None,
        "planNodes": {
            "data": [plan_node(view, node, task_runs=task_runs.get(node.id)) for node in nodes]
        },
        "planEdges": {"data": [plan_edge(view, edge) for edge in edges]},
        "planSnapshots": {"data": [plan(view, snapshot) for snapshot in snapshots]},
    }


def associated_people(view: View, one: Plan | PlanSnapshot) -> list[Json]:
    """Return who may do what with a plan, its owner first."""
    owner = view.world.plans.get(one.original_plan_id) if isinstance(one, PlanSnapshot) else one
    if owner is None:
        return []
    return [
        {
            "id": who.id,
            "email": who.email,
            "name": who.name,
            "authorizationPermission": {
                "isCreatedBy": who.id == one.creator_id,
                "policyName": None,
                "policyTag": POLICY_TAGS[role_of(owner, who.id)],
                "workspaceAdmin": who.is_admin,
            },
        }
        for who in people_of(view, owner)
    ]


def creator_info(view: View, one: Record) -> Json:
    """Return a creator with name and address, as the full read shows it."""
    who = view.world.people.get(one.creator_id, with_deleted=True)
    if who is None:
        return reference(one.creator_id)
    shown = person(view, who)
    return {name: shown[name] for name in ("id", "email", "name")}


def plan_node(
    view: View, one: PlanNode, *, task_runs: Sequence[PlanTaskRun] | None = None
) -> dict[str, Json]:
    """Return a node with its task; in a snapshot also with what its runs did."""
    document: dict[str, Json] = {
        **stamps(one),
        "plan": reference(one.plan_id),
        "handle": one.handle,
        "name": one.name,
        "taskType": one.task_type,
        "coordinates": {"x": one.x, "y": one.y},
    }
    if one.flow_id is not None:
        document["task"] = {
            "flow": {"id": one.flow_id, "name": flow_name(view, one.flow_id)},
            "flowNodes": [reference(node_id) for node_id in one.flow_node_ids],
            "webhooksEnabled": one.webhooks_enabled,
        }
    if one.http_task is not None:
        document["httpTask"] = _http_task(one, one.http_task)
    document["planOverrides"] = {
        "data": [
            {"id": override.id, "overrideKey": override.override_key, "value": override.value}
            for override in _overrides_of(view, one)
        ]
    }
    if task_runs is not None:
        document["planTaskSnapshotRuns"] = {"data": [_task_run(view, run) for run in task_runs]}
    return document


def _overrides_of(view: View, one: PlanNode) -> list[PlanOverride]:
    overrides = view.world.shelf(PlanOverride).live()
    return [override for override in overrides if override.plan_node_id == one.id]


def plan_edge(view: View, one: PlanEdge) -> dict[str, Json]:
    del view
    return {
        **stamps(one),
        "plan": reference(one.plan_id),
        "inPlanNodeId": one.in_plan_node_id,
        "outPlanNodeId": one.out_plan_node_id,
        "statusRule": one.status_rule,
    }


def _http_task(node: PlanNode, task: HttpTask) -> dict[str, Json]:
    return {
        "id": node.id,
        "type": "basic",
        "method": task.method,
        "url": task.url,
        "headers": dict(task.headers),
        "body": task.body,
        "secretKey": task.secret_key,
        "sslVerification": task.ssl_verification,
        "maxRetries": task.max_retries,
        "sampleResponseBody": "",
        "sampleResponseHeaders": {},
        "shouldUpdateSampleResponse": False,
        "planNode": reference(node.id),
        "createdAt": stamp(node.created_at),
        "updatedAt": stamp(node.updated_at),
    }


def _task_runs(view: View, snapshot: PlanSnapshot) -> dict[int, list[PlanTaskRun]]:
    found: dict[int, list[PlanTaskRun]] = {node.id: [] for node in snapshot.nodes}
    for run in runs_of(view, snapshot)[-RUNS_TOLD_BY_A_SNAPSHOT:]:
        for task_run in view.world.task_runs_of(run.id):
            found.setdefault(task_run.plan_node_id, []).append(task_run)
    return found


def _task_run(view: View, one: PlanTaskRun) -> dict[str, Json]:
    flow_run = None if one.flow_run_id is None else view.world.flow_runs.get(one.flow_run_id)
    job_group_ids = [] if flow_run is None else flow_run.job_group_ids
    return {
        "id": one.id,
        "status": one.status.value,
        "createdAt": stamp(one.created_at),
        "updatedAt": stamp(one.updated_at),
        "startedAt": stamp(one.started_at),
        "finishedAt": stamp(one.finished_at),
        "planNode": reference(one.plan_node_id),
        "planSnapshotRun": reference(one.plan_run_id),
        "planFlowTaskRunResults": {
            "data": [
                {"jobGroup": reference(group_id), "flowRun": reference(one.flow_run_id)}
                for group_id in job_group_ids
            ]
        },
    }


def _latest_run(view: View, one: Plan | PlanSnapshot) -> PlanSnapshotRun | None:
    runs = runs_of(view, one)
    return runs[-1] if runs else None


PLAN_RESOURCES: dict[str, Resource] = {
    "plans": Resource(
        plural="plans",
        render=plan,
        columns={
            **NAMED,
            "planSnapshotRunCount": lambda view, one: len(runs_of(view, one)),
        },
        associations={
            **OWN,
            "latestplansnapshotrun": Association(
                key="latestPlanSnapshotRun", target="plansnapshotruns", find=_latest_run
            ),
            "plansnapshotruns": Association(
                key="planSnapshotRuns", target="plansnapshotruns", find=runs_of, many=True
            ),
            "plansnapshots": Association(
                key="planSnapshots",
                target="plans",
                find=lambda view, one: view.world.snapshots_of(one.id),
                many=True,
            ),
            "plannodes": Association(
                key="planNodes",
                target="plannodes",
                find=lambda view, one: (
                    one.nodes if isinstance(one, PlanSnapshot) else view.world.nodes_of(one.id)
                ),
                many=True,
            ),
            "planedges": Association(
                key="planEdges",
                target="planedges",
                find=lambda view, one: (
                    one.edges if isinstance(one, PlanSnapshot) else view.world.edges_of(one.id)
                ),
                many=True,
            ),
        },
        extra_fields=frozenset(
            {"associatedPeople", "cpProject", "planEdges", "planNodes", "planSnapshots"}
        ),
    ),
    "plannodes": Resource(
        plural="plannodes",
        render=plan_node,
        columns=NAMED,
        associations={
            **OWN,
            "plan": Association(
                key="plan",
                target="plans",
                find=lambda view, one: view.world.plans.get(one.plan_id, with_deleted=True),
            ),
            "planoverrides": Association(
                key="planOverrides", target="planoverrides", find=_overrides_of, many=True
            ),
        },
    ),
    "planedges": Resource(plural="planedges", render=plan_edge, columns=STAMPS, associations=OWN),
}
