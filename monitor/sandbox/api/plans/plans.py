"""Plans: made, listed, read, changed, deleted and run."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.sandbox.api.calls import NOT_MODIFIED, Call, Handlers, Reply, all_of
from monitor.sandbox.api.crud.handlers import crud
from monitor.sandbox.api.errors import Json, bad_field, forbidden, not_found, validation_failed
from monitor.sandbox.api.plans.plan_kinds import PLAN
from monitor.sandbox.api.plans.plan_shapes import associated_people, creator_info, plan_full
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.request.parameters import boolean
from monitor.sandbox.api.schedules.schedule_shapes import schedule
from monitor.sandbox.running.engine import NothingToRunError
from monitor.sandbox.world.records.objects import Plan, PlanSnapshot
from monitor.sandbox.world.records.runs import RanFrom


def _plans(call: Call) -> Iterable[Plan]:
    query = call.list_query()
    return (
        plan
        for plan in call.world.plans
        if (query.include_deleted or plan.deleted_at is None)
        and call.view.in_scope(plan, query.scope)
    )


def list_plans(call: Call) -> Reply:
    """List plans, by default the caller's own."""
    if not boolean(call.query, "includeAssociatedPeople"):
        return call.list("plans", _plans(call))
    return call.list(
        "plans",
        _plans(call),
        extra=lambda character: {"associatedPeople": associated_people(call.view, character)},
    )


def count_plans(call: Call) -> Reply:
    """Count what the list of plans shows."""
    return call.count("plans", _plans(call))


def read_full(call: Call) -> Reply:
    """Return a plan, or a snapshot of one: both kinds of id are taken."""
    plan_id = call.path_id()
    with_deleted = call.list_query().include_deleted
    found: Plan | PlanSnapshot | None = call.world.plans.get(plan_id, with_deleted=with_deleted)
    found = found or call.world.plan_snapshots.get(plan_id, with_deleted=with_deleted)
    if found is None:
        raise not_found("plan", plan_id)
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


HANDLERS: Handlers = {
    **crud(PLAN, create="createPlan", changed=("updatePlan",), deleted="deletePlan"),
    "listPlans": list_plans,
    "countPlans": count_plans,
    "readFull": read_full,
    "getSchedulesForPlan": get_schedules,
    "runPlan": run_plan,
}
