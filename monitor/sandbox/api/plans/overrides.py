"""The values that a plan gives to run parameters of its nodes."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.api.calls import Call, Handlers
from monitor.sandbox.api.crud.handlers import Hooks, crud
from monitor.sandbox.api.errors import bad_field
from monitor.sandbox.api.plans.nodes import touch
from monitor.sandbox.api.plans.plan_kinds import PLAN_OVERRIDE
from monitor.sandbox.world.records.parts import PlanOverride


def _prepare(call: Call, record: PlanOverride | None, values: dict[str, Any]) -> dict[str, Any]:
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


HOOKS: Hooks[PlanOverride] = Hooks(prepare=_prepare, after=_notify)

HANDLERS: Handlers = crud(
    PLAN_OVERRIDE,
    create="createPlanOverride",
    changed=("updatePlanOverride",),
    hooks=HOOKS,
)
