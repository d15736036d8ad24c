"""What the first flows, plans and people have beside the main things."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from monitor.sandbox.world.records.objects import Flow, Plan, Recipe
from monitor.sandbox.world.records.parts import (
    EnvironmentParameter,
    FlowNotificationSettings,
    FlowRunParameterOverride,
    Folder,
    Macro,
    PlanOverride,
    UserDefinedFunction,
)
from monitor.sandbox.world.shelves import World

# Name, what is in it, and the words with which the names of its flows begin.
_FOLDERS = (
    ("Sales", "Everything that is sold", ("Daily sales", "Customer")),
    ("Operations", "Stock and machines", ("Inventory", "Sensor")),
)


def seed_folders(world: World, flows: Sequence[Flow], *, by: int) -> None:
    """Make folders in the name of person ``by``, and put flows into them.

    Draws nothing, so that what else the seed makes stays as it is.
    """
    created_at = world.now() - timedelta(days=365)
    for name, description, beginnings in _FOLDERS:
        folder = world.create(
            Folder, by=by, created_at=created_at, name=name, description=description
        )
        for flow in flows:
            if flow.name.startswith(beginnings):
                flow.folder_id = folder.id


def seed_parameters(world: World, flow: Flow) -> None:
    """Let the flow's runs have a parameter, and its people be notified of those that fail."""
    created_at = flow.created_at
    world.create(
        FlowRunParameterOverride,
        by=flow.creator_id,
        created_at=created_at,
        flow_id=flow.id,
        override_key="region",
        value="north",
    )
    world.create(
        FlowNotificationSettings,
        by=flow.creator_id,
        created_at=created_at,
        flow_id=flow.id,
        on_job_failure="all",
        on_job_success="never",
    )


# Name, what it does, types of its inputs and of its output, and how many recipes use it.
_FUNCTIONS: tuple[tuple[str, str, tuple[str, ...], str, int], ...] = (
    ("CLEAN_PHONE", "Writes a phone number as +49 30 1234567", ("String", "String"), "String", 3),
    ("NET_AMOUNT", "Takes the tax from an amount", ("Decimal", "Decimal"), "Decimal", 2),
    (
        "GEO_HASH",
        "Names the square of a place; nobody uses it yet",
        ("Float", "Float"),
        "String",
        0,
    ),
)


def seed_functions(world: World, *, by: int) -> None:
    """Make the functions in the name of person ``by``, and let recipes use them.

    Draws by its own name, so that what else the seed makes stays as it is.
    """
    chance = world.random("functions")
    recipes = list(world.recipes.live())
    for name, description, input_types, output_type, users in _FUNCTIONS:
        created_at = world.now() - timedelta(seconds=chance.randint(30 * 86_400, 365 * 86_400))
        function = world.create(
            UserDefinedFunction,
            by=by,
            created_at=created_at,
            name=name,
            description=description,
            input_types=input_types,
            output_type=output_type,
        )
        for recipe in chance.sample(recipes, k=min(users, len(recipes))):
            _use(recipe, function)


def _use(recipe: Recipe, function: UserDefinedFunction) -> None:
    recipe.function_ids = (*recipe.function_ids, function.id)


# A secret says of itself that it is one; this one opens nothing.
_PARAMETERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("region", {"variable": {"value": "europe-west3"}}),
    ("stage", {"variable": {"value": "sandbox"}}),
    ("partnerKey", {"type": "secret", "variable": {"value": "not-a-real-secret"}}),
)
_MACROS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Tidy text",
        "Trims a column and writes it in small letters",
        ("set col: $col value: TRIM($col)", "set col: $col value: LOWER($col)"),
    ),
    (
        "Drop empty rows",
        "Deletes rows that have nothing in a column",
        ("delete row: ISMISSING([$col])",),
    ),
)
_COLUMN = ({"name": "col", "type": "column"},)


def seed_packages(world: World, *, by: int) -> None:
    """Make the parameters and macros in the name of person ``by``, two months ago."""
    created_at = world.now() - timedelta(days=60)
    for key, value in _PARAMETERS:
        world.create(
            EnvironmentParameter, by=by, created_at=created_at, override_key=key, value=value
        )
    for name, description, steps in _MACROS:
        world.create(
            Macro,
            by=by,
            created_at=created_at,
            name=name,
            description=description,
            steps=steps,
            parameters=_COLUMN,
        )


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
