"""Plans, their nodes, edges and overrides as data."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.api.plans.plan_shapes import PLAN_RESOURCES
from monitor.sandbox.api.response.kinds import Kind, OnDelete, Reference, Visibility
from monitor.sandbox.world.records.objects import Flow, Plan, PlanEdge, PlanNode, Recipe
from monitor.sandbox.world.records.parts import PlanOverride

PLAN: Kind[Plan] = Kind(
    record=Plan,
    name="plan",
    plural="plans",
    model="Plan",
    requests=("PlanCreateRequest", "PlanUpdateRequest"),
    references=(
        Reference(
            attribute="original_plan_id",
            target=Plan,
            sent="originalPlanId",
            on_delete=OnDelete.KEEP,
        ),
    ),
    visibility=Visibility.HOME,
    resource=PLAN_RESOURCES["plans"],
)

PLAN_NODE: Kind[PlanNode] = Kind(
    record=PlanNode,
    name="planNode",
    plural="plannodes",
    model="PlanNode",
    requests=("PlanNodeCreateRequest",),
    references=(
        Reference(attribute="plan_id", target=Plan, shown="plan", sent="planId"),
        # A plan keeps the node of a flow that is gone, and then cannot be run.
        Reference(attribute="flow_id", target=Flow, sent="flowId", on_delete=OnDelete.KEEP),
        Reference(
            attribute="flow_node_ids",
            target=Recipe,
            sent="flowNodeIds",
            on_delete=OnDelete.CLEAR,
            many=True,
        ),
    ),
    home="plan_id",
    visibility=Visibility.HOME,
    # What these say is kept in other words: see `nodes`.
    unkept=frozenset({"coordinates", "inPlanNodeIds", "statusRule", "task", "httpTask"}),
    resource=PLAN_RESOURCES["plannodes"],
)

PLAN_EDGE: Kind[PlanEdge] = Kind(
    record=PlanEdge,
    name="planEdge",
    plural="planedges",
    model="PlanEdge",
    references=(
        Reference(attribute="plan_id", target=Plan, shown="plan"),
        Reference(attribute="in_plan_node_id", target=PlanNode),
        Reference(attribute="out_plan_node_id", target=PlanNode),
    ),
    home="plan_id",
    visibility=Visibility.HOME,
    resource=PLAN_RESOURCES["planedges"],
)

PLAN_OVERRIDE: Kind[PlanOverride] = Kind(
    record=PlanOverride,
    name="planOverride",
    plural="planoverrides",
    model="PlanOverride",
    requests=("PlanOverrideCreateRequest", "PlanOverrideUpdateRequest"),
    references=(
        Reference(attribute="plan_node_id", target=PlanNode, shown="planNode", sent="planNodeId"),
    ),
    home="plan_node_id",
    visibility=Visibility.HOME,
    filter_fields=("overrideKey",),
)

PLAN_KINDS: tuple[Kind[Any], ...] = (PLAN, PLAN_NODE, PLAN_EDGE, PLAN_OVERRIDE)
