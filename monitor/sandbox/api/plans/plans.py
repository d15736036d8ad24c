"""Plans, and who works on them."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.api.calls import NO_CONTENT, NOT_MODIFIED, Call, Handlers, Reply, all_of
from monitor.sandbox.api.crud.handlers import crud, found, rows_of
from monitor.sandbox.api.crud.rights import share, subjects, unshare
from monitor.sandbox.api.errors import Json, bad_field, forbidden, not_found, validation_failed
from monitor.sandbox.api.people.people import people_of, person
from monitor.sandbox.api.plans.plan_shapes import (
    PLAN_RESOURCES,
    POLICY_TAGS,
    associated_people,
    creator_info,
    plan_full,
)
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.request.parameters import INTEGER, boolean
from monitor.sandbox.api.response.kinds import Kind, OnDelete, Reference, role_of
from monitor.sandbox.api.response.rendering import reference
from monitor.sandbox.api.schedules.schedules import schedule
from monitor.sandbox.running.engine import NothingToRunError
from monitor.sandbox.world.records.objects import (
    Flow,
    Person,
    Plan,
    PlanEdge,
    PlanNode,
    PlanSnapshot,
    Recipe,
)
from monitor.sandbox.world.records.parts import PlanOverride
from monitor.sandbox.world.records.runs import RanFrom

PLAN: Kind[Plan] = Kind(
    record=Plan,
    references=(
        Reference("original_plan_id", Plan, sent="originalPlanId", on_delete=OnDelete.KEEP),
    ),
    resource=PLAN_RESOURCES["plans"],
)

PLAN_NODE: Kind[PlanNode] = Kind(
    record=PlanNode,
    references=(
        Reference("plan_id", Plan, shown="plan", sent="planId"),
        # A plan keeps the node of a flow that is gone, and then cannot be run.
        Reference("flow_id", Flow, sent="flowId", on_delete=OnDelete.KEEP),
        Reference("flow_node_ids", Recipe, sent="flowNodeIds", on_delete=OnDelete.CLEAR, many=True),
    ),
    home="plan_id",
    # What these say is kept in other words: see `nodes`.
    unkept=frozenset({"coordinates", "inPlanNodeIds", "statusRule", "task", "httpTask"}),
    resource=PLAN_RESOURCES["plannodes"],
)

PLAN_EDGE: Kind[PlanEdge] = Kind(
    record=PlanEdge,
    references=(
        Reference("plan_id", Plan, shown="plan"),
        Reference("in_plan_node_id", PlanNode),
        Reference("out_plan_node_id", PlanNode),
    ),
    home="plan_id",
)

PLAN_OVERRIDE: Kind[PlanOverride] = Kind(
    record=PlanOverride,
    references=(Reference("plan_node_id", PlanNode, shown="planNode", sent="planNodeId"),),
    home="plan_node_id",
    filter_fields=("overrideKey",),
)

PLAN_KINDS: tuple[Kind[Any], ...] = (PLAN, PLAN_NODE, PLAN_EDGE, PLAN_OVERRIDE)


def list_plans(call: Call) -> Reply:
    """List plans, by default the caller's own."""
    if not boolean(call.query, "includeAssociatedPeople"):
        return call.list("plans", rows_of(call, PLAN))
    return call.list(
        "plans",
        rows_of(call, PLAN),
        extra=lambda character: {"associatedPeople": associated_people(call.view, character)},
    )


def read_full(call: Call) -> Reply:
    """Return a plan, or a snapshot of one: both kinds of id are taken."""
    plan_id = call.path_id()
    with_deleted = call.list_query().include_deleted
    found: Plan | PlanSnapshot | None = call.world.plans.get(plan_id, with_deleted=with_deleted)
    found = found or call.world.plan_snapshots.get(plan_id, with_deleted=with_deleted)
    if found is None:
        raise not_found("plan", plan_id)
    call.require_sight(found, "plan")
    if isinstance(found, PlanSnapshot) and call.world.options.forbidden_snapshots:
        raise forbidden(f"You do not have access to plan {plan_id}")
    extra: dict[str, Json] = plan_full(call.view, found)
    if boolean(call.query, "includeAssociatedPeople", default=True):
        extra["associatedPeople"] = associated_people(call.view, found)
    if boolean(call.query, "includeCreatorInfo", default=True):
        extra["creator"] = creator_info(call.view, found)
    return call.show("plans", found, extra=extra)


def get_schedules(call: Call) -> Reply:
    """List the definitions of the schedules that start a plan."""
    plan = call.thing(call.world.plans, "plan")
    found = call.world.schedules_of(kind="plan", target_id=plan.id)
    return all_of([schedule(call.view, other_schedule) for other_schedule in found])


def run_plan(call: Call) -> Reply:
    """Run a plan as it is now."""
    plan = call.thing(call.world.plans, "plan")
    body = Body({} if call.body is None else call.body)
    parameters = _parameters(call, plan, body)
    if call.has_run_before():
        return NOT_MODIFIED
    try:
        started = call.engine.start_plan_run(
            plan, by=call.person.id, ran_from=RanFrom.API, parameters=parameters
        )
    except NothingToRunError as exc:
        raise validation_failed(f'"id" cannot be run: {exc}') from exc
    call.remember_run()
    return Reply(status=201, body={"validationStatus": "Valid", "planSnapshotRunId": started.id})


def _parameters(call: Call, plan: Plan, body: Body) -> dict[int, dict[str, Json]]:
    """Return the values that a run gives to parameters, by node and override key."""
    found: dict[int, dict[str, Json]] = {}
    if not body.has("planNodeOverrides") or not body.array("planNodeOverrides"):
        return found
    ids = {node.handle: node.id for node in call.world.nodes_of(plan.id)}
    for override in body.objects("planNodeOverrides"):
        key, value = override.text("overrideKey"), override.raw("value")
        handle = override.text("handle")
        if handle not in ids:
            raise bad_field(override.name_of("handle"), f"names no node of plan {plan.id}")
        found.setdefault(ids[handle], {})[key] = value
    return found


def share_plan(call: Call) -> Reply:
    """Share a plan with people; what they were before is overwritten."""
    plan = found(call, PLAN)
    with_whom = subjects(call)
    share(call, plan, with_whom)
    rows = [_permission(plan, subject) for subject, _ in with_whom]
    return Reply(status=201, body={"data": rows})


def _permission(plan: Plan, person: Person) -> dict[str, Json]:
    role = role_of(plan, person.id)
    return {
        "plan": reference(plan.id),
        "person": {"id": person.id, "email": person.email, "name": person.name},
        "role": role,
        "policyTag": POLICY_TAGS[role],
    }


def get_plan_permissions(call: Call) -> Reply:
    """List the people who own a plan or share it, the owner first, each with a role."""
    plan = found(call, PLAN)
    rows = [
        {**person(call.view, other_person), "role": role_of(plan, other_person.id)}
        for other_person in people_of(call.view, plan)
    ]
    return Reply(body={"data": rows})


def delete_plan_permissions(call: Call) -> Reply:
    """Share a plan with a person no longer; it is 404 for a person without a share."""
    plan = found(call, PLAN)
    subject = call.path_values[1]
    person_id = int(subject) if INTEGER.fullmatch(subject) else 0
    if person_id not in plan.shared_with:
        raise not_found(f"permission of plan {plan.id} for person", subject)
    unshare(call, plan, person_id)
    return NO_CONTENT


HANDLERS: Handlers = {
    **crud(PLAN),
    "listPlans": list_plans,
    "readFull": read_full,
    "getSchedulesForPlan": get_schedules,
    "runPlan": run_plan,
    "sharePlan": share_plan,
    "getPlanPermissions": get_plan_permissions,
    "deletePlanPermissions": delete_plan_permissions,
}
