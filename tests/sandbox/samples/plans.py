"""Samples of the operations on plans and their runs."""

from __future__ import annotations

from monitor.sandbox.world.records.objects import Plan, PlanNode, ScheduleHistory
from monitor.sandbox.world.records.parts import PlanOverride
from monitor.sandbox.world.records.runs import PlanSnapshotRun
from tests.sandbox.samples.sample import Living, Sample, of


def furnish(living: Living) -> None:
    """Make a run of a plan, started by a schedule; share the plan, and override a parameter."""
    history = living.create(ScheduleHistory, schedule_id=71, name="hourly", triggers=(), tasks=())
    things = living.things
    run = living.workspace.engine.start_plan_run(
        things.nightly, by=things.owner.id, schedule_history_id=history.id
    )
    assert run.schedule_history_id == history.id
    things.nightly.shared_with = frozenset({things.colleague.id})
    living.create(PlanOverride, plan_node_id=things.node.id, override_key="day", value="8")


def override(living: Living, key: str) -> dict[str, object]:
    return {"planNodeId": living.things.node.id, "overrideKey": key, "value": {"of": "any kind"}}


SAMPLES = {
    "createPlan": Sample(body=lambda _: {"name": "Weekly close", "description": "all books"}),
    "listPlans": Sample(),
    "countPlans": Sample(),
    "readFull": Sample(path=of(Plan)),
    "updatePlan": Sample(path=of(Plan), body=lambda _: {"notificationsEnabled": False}),
    "deletePlan": Sample(path=of(Plan)),
    "sharePlan": Sample(
        path=of(Plan),
        body=lambda item: {"data": [{"email": item.things.admin.email, "role": "readOnly"}]},
    ),
    "getPlanPermissions": Sample(path=of(Plan)),
    "deletePlanPermissions": Sample(
        path=lambda item: (item.things.nightly.id, item.things.colleague.id)
    ),
    "planRunParameters": Sample(path=of(Plan)),
    "createPlanNode": Sample(
        body=lambda item: {
            "planId": item.things.nightly.id,
            "taskType": "flow",
            "task": {"flowId": item.things.orders.id},
            "inPlanNodeIds": [item.things.node.id],
            "coordinates": {"x": 100, "y": 40.5},
        }
    ),
    "getPlanNodeRunParameters": Sample(path=of(PlanNode)),
    "deletePlanNode": Sample(path=of(PlanNode)),
    "createPlanOverride": Sample(body=lambda item: override(item, "month")),
    "updatePlanOverride": Sample(path=of(PlanOverride), body=lambda item: override(item, "day")),
    "runPlan": Sample(path=of(Plan), body=lambda _: {}),
    "getSchedulesForPlan": Sample(path=of(Plan)),
    "cancelPlanSnapshotRun": Sample(path=of(PlanSnapshotRun), body=lambda _: {}),
    "listPlanSnapshotRuns": Sample(),
    "countPlanSnapshotRuns": Sample(),
    "getPlanSnapshotRun": Sample(path=of(PlanSnapshotRun)),
    "getScheduleForPlanRun": Sample(path=of(PlanSnapshotRun)),
}
