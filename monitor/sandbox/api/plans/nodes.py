"""The nodes of plans, the edges between them, and the values that they override."""

from __future__ import annotations

import itertools
import string
from typing import Any

from monitor.sandbox.api.calls import NO_CONTENT, Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import Hooks, crud, delete, found
from monitor.sandbox.api.crud.rights import require_right
from monitor.sandbox.api.crud.values import values_of
from monitor.sandbox.api.errors import bad_field, validation_failed
from monitor.sandbox.api.plans.plans import PLAN_NODE, PLAN_OVERRIDE
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.world.records.objects import HttpTask, PlanEdge, PlanNode
from monitor.sandbox.world.records.parts import PlanOverride
from monitor.sandbox.world.shelves import World

DEFAULT_NAMES = {"http": "Send HTTP request"}
LONGEST_HANDLE = 20
FARTHEST = 1_000_000  # from the middle of the canvas
MOST_RETRIES = 10


def _prepare_node(call: Call, record: PlanNode | None, values: dict[str, Any]) -> dict[str, Any]:
    """Validate the whole node, the edges to it too, before anything is made."""
    del record
    body = Body(call.body)
    plan_id, task_type = values["plan_id"], values["task_type"]
    values["handle"] = _handle(call.world, plan_id, values.get("handle"))
    values |= _coordinates(body)
    if task_type == "flow":
        values |= _flow_task(call, body, values)
    else:
        values.pop("flow_id", None)
        values.pop("flow_node_ids", None)
    if task_type == "http":
        values["http_task"] = _http_task(body)
    values["name"] = values.get("name") or _name(call.world, values)
    _nodes_before(call, plan_id)
    return values


def _handle(world: World, plan_id: int, handle: str | None) -> str:
    """Return the short name of a new node in its plan: the given one, or two free letters."""
    taken = {node.handle for node in world.nodes_of(plan_id)}
    if handle:
        if handle in taken or len(handle) > LONGEST_HANDLE:
            raise bad_field("handle", f"must be short and free in plan {plan_id}")
        return handle
    pairs = ("".join(pair) for pair in itertools.product(string.ascii_lowercase, repeat=2))
    free = next((pair for pair in pairs if pair not in taken), None)
    if free is None:
        raise validation_failed(f'"planId" has no room: plan {plan_id} has {len(taken)} nodes')
    return free


def _coordinates(body: Body) -> dict[str, int]:
    place = body.raw("coordinates") if body.has("coordinates") else {}
    return {axis: round(max(-FARTHEST, min(place.get(axis) or 0, FARTHEST))) for axis in ("x", "y")}


def _flow_task(call: Call, body: Body, values: dict[str, Any]) -> dict[str, Any]:
    """Return which flow a node runs; it may stand in ``task`` or beside it."""
    task = body.object("task") if body.has("task") else body
    path = "task" if body.has("task") else ""
    sent = {name: task.raw(name) for name in task.names() if task.has(name)}
    if "flowId" not in sent and "flow" in sent:
        sent["flowId"] = sent["flow"]
    made = {**values, **values_of(call, PLAN_NODE, "PlanFlowTask", body=sent, path=path)}
    if made.get("flow_id") is None:
        raise bad_field(task.name_of("flowId"), "is required")
    recipes = {recipe.id for recipe in call.world.recipes_of(made["flow_id"])}
    for place, recipe_id in enumerate(made.get("flow_node_ids", ())):
        if recipe_id not in recipes:
            where = f"{task.name_of('flowNodeIds')}[{place}]"
            raise bad_field(where, f"names no recipe of flow {made['flow_id']}")
    names = ("flow_id", "flow_node_ids", "webhooks_enabled")
    return {name: made[name] for name in names if name in made}


def _http_task(body: Body) -> HttpTask:
    """Return the request that a node sends; without a body of it, one that sends nothing."""
    if not body.has("httpTask"):
        return HttpTask()
    task = body.object("httpTask")
    standard = HttpTask()
    return HttpTask(
        url=task.optional_text("url") or "",
        method=task.optional_text("method") or standard.method,
        headers=task.texts("headers"),
        body=task.optional_text("body") or "",
        secret_key=task.optional_text("secretKey") or "",
        ssl_verification=task.boolean("sslVerification", default=standard.ssl_verification),
        max_retries=task.integer("maxRetries", least=0, most=MOST_RETRIES)
        if task.has("maxRetries")
        else standard.max_retries,
    )


def _name(world: World, values: dict[str, Any]) -> str:
    flow = world.flows.get(values["flow_id"]) if "flow_id" in values else None
    task_type: str = values["task_type"]
    return DEFAULT_NAMES.get(task_type, task_type) if flow is None else flow.name


def _nodes_before(call: Call, plan_id: int) -> list[int]:
    """Return the nodes after which a new one comes.

    Raises:
        ApiError: 400, naming the place of one that is not of the plan.
    """
    ids = Body(call.body).integers("inPlanNodeIds")
    known = {node.id for node in call.world.nodes_of(plan_id)}
    for place, node_id in enumerate(ids):
        if node_id not in known:
            raise bad_field(f"inPlanNodeIds[{place}]", f"names no node of plan {plan_id}")
    return list(dict.fromkeys(ids))


def _join(call: Call, node: PlanNode) -> None:
    """Make the edges that lead to a new node; a circle cannot come of it."""
    body = Body(call.body)
    rule = body.text("statusRule") if body.has("statusRule") else "success"
    for node_id in _nodes_before(call, node.plan_id):
        call.world.create(
            PlanEdge,
            by=call.person.id,
            plan_id=node.plan_id,
            in_plan_node_id=node_id,
            out_plan_node_id=node.id,
            status_rule=rule,
        )
    touch(call, node.plan_id)


def touch(call: Call, plan_id: int) -> None:
    """Publish that a part of a plan has changed."""
    plan = call.world.plans.get(plan_id)
    if plan is not None:
        call.world.update(plan, by=call.person.id)


def delete_plan_node(call: Call) -> Reply:
    """Delete a node, with its edges and overrides."""
    node = found(call, PLAN_NODE)
    require_right(call, node)
    delete(call, node)
    touch(call, node.plan_id)
    return NO_CONTENT


NODE_HOOKS: Hooks[PlanNode] = Hooks(prepare=_prepare_node, after=_join)


def _prepare_override(
    call: Call, record: PlanOverride | None, values: dict[str, Any]
) -> dict[str, Any]:
    """Let a parameter of a node have one value only, and an override stay in its plan."""
    world = call.world
    node = world.plan_nodes.get(values["plan_node_id"])
    before = None if record is None else world.plan_nodes.get(record.plan_node_id)
    if node is not None and before is not None and node.plan_id != before.plan_id:
        raise bad_field("planNodeId", f"names no node of plan {before.plan_id}")
    for plan_override in world.shelf(PlanOverride).live():
        same = (plan_override.plan_node_id, plan_override.override_key)
        if plan_override is not record and same == (values["plan_node_id"], values["override_key"]):
            raise bad_field("overrideKey", f"has a value already: override {plan_override.id}")
    return values


def _notify(call: Call, record: PlanOverride) -> None:
    node = call.world.plan_nodes.get(record.plan_node_id)
    if node is not None:
        touch(call, node.plan_id)


OVERRIDE_HOOKS: Hooks[PlanOverride] = Hooks(prepare=_prepare_override, after=_notify)


HANDLERS: Handlers = {
    **crud(PLAN_NODE, NODE_HOOKS),
    "deletePlanNode": delete_plan_node,
    **crud(PLAN_OVERRIDE, OVERRIDE_HOOKS),
}
