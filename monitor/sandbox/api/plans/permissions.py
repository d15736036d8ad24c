"""With whom plans are shared."""

from __future__ import annotations

from monitor.sandbox.api.calls import NO_CONTENT, Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import found
from monitor.sandbox.api.crud.sharing import share, subjects, unshare
from monitor.sandbox.api.errors import Json, not_found
from monitor.sandbox.api.people.person_shapes import people_of, person
from monitor.sandbox.api.plans.plan_kinds import PLAN
from monitor.sandbox.api.plans.plan_shapes import POLICY_TAGS
from monitor.sandbox.api.request.parameters import INTEGER
from monitor.sandbox.api.response.rendering import reference
from monitor.sandbox.api.response.roles import role_of
from monitor.sandbox.world.records.objects import Person, Plan


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
    """Share a plan with somebody no longer; it is 404 for who has no share in it."""
    plan = found(call, PLAN)
    subject = call.path_values[1]
    person_id = int(subject) if INTEGER.fullmatch(subject) else 0
    if person_id not in plan.shared_with:
        raise not_found(f"permission of plan {plan.id} for person", subject)
    unshare(call, plan, person_id)
    return NO_CONTENT


HANDLERS: Handlers = {
    "sharePlan": share_plan,
    "getPlanPermissions": get_plan_permissions,
    "deletePlanPermissions": delete_plan_permissions,
}
