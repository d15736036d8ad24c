"""A flow whose outputs go to the folder of a region, which a plan names for its own runs."""

from __future__ import annotations

from monitor.sandbox.records.objects import Flow, Plan
from monitor.sandbox.records.plans import PlanOverride
from monitor.sandbox.world import World

KEY = "region"
EVERYWHERE, IN_THE_PLAN = "all", "south"


def seed_regions(world: World, flow: Flow, plan: Plan | None) -> None:
    """Put a parameter into the paths that a flow writes, and its value into a plan. Draws nothing.

    ``plan`` is None where the edition has none.
    """
    recipe_ids = {recipe.id for recipe in world.recipes_of(flow.id)}
    outputs = [
        output_object_
        for output_object_ in world.output_objects.live()
        if output_object_.recipe_id in recipe_ids
    ]
    for setting in (
        write_setting for output in outputs for write_setting in world.write_settings_of(output.id)
    ):
        folder, _, name = setting.path.rpartition("/")
        setting.path = f"{folder}//{name}"
        place = {"index": len(folder) + 1, "order": 0}
        setting.run_parameters = (
            {
                "type": "path",
                "overrideKey": KEY,
                "insertionIndices": [place],
                "value": {"variable": {"value": EVERYWHERE}},
            },
        )
    for node in [] if plan is None else world.nodes_of(plan.id):
        if node.flow_id == flow.id:
            world.create(
                PlanOverride,
                by=node.creator_id,
                created_at=node.created_at,
                plan_node_id=node.id,
                override_key=KEY,
                value={"variable": {"value": IN_THE_PLAN}},
            )
