"""Makes flows with their recipes and outputs, what belongs to them, and as many more as asked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

from monitor.model.triggers import DailyTrigger, ScheduleTrigger
from monitor.sandbox.world.records.objects import (
    Flow,
    OutputObject,
    Plan,
    Publication,
    Recipe,
    Schedule,
    ScheduleTask,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import (
    EnvironmentParameter,
    FlowNotificationSettings,
    FlowRunParameterOverride,
    Folder,
    Macro,
    PlanOverride,
    UserDefinedFunction,
)
from monitor.sandbox.world.seeding.seeds import seeds
from monitor.sandbox.world.shelves import World

# The name of a recipe, and the places of those that it builds upon.
Recipes = Sequence[tuple[str, tuple[int, ...]]]

_THINGS = (
    *("Orders", "Returns", "Payments", "Refunds", "Shipments", "Suppliers", "Contracts", "Leads"),
    *("Campaigns", "Visits", "Subscriptions", "Complaints", "Tickets", "Prices", "Budgets"),
    *("Salaries", "Machines", "Energy", "Stores", "Products"),
)
_TOWNS = (
    *("Austria", "Belgium", "Denmark", "Finland", "France", "Germany", "Italy", "Poland"),
    *("Spain", "Sweden"),
)
_WORDS = ("by day", "by week", "by customer", "by shop", "cleaned", "for the report", "to archive")
_TWO_RECIPES = 0.4  # of the flows have a second recipe
_FAILURE_RATIOS = (0.02, 0.05, 0.1)
_SCHEDULED_EACH = 20  # one flow in so many starts by a schedule, once a day
KEY = "region"
EVERYWHERE, IN_THE_PLAN = "all", "south"


def add_flow(
    world: World,
    name: str,
    recipes: Recipes,
    *,
    by: int,
    created_at: datetime,
    failure_ratio: float,
    chance: random.Random,
) -> Flow:
    """Make a flow, shared with two people, whose recipes have an output for each way to run."""
    people = [person.id for person in world.people.live()]
    flow = world.create(
        Flow,
        by=by,
        created_at=created_at,
        name=name,
        description=f"{name}: made with the sandbox",
        shared_with=frozenset(chance.sample(people, k=2)),
        failure_ratio=failure_ratio,
    )
    datasets = list(world.imported_datasets.live())
    made: list[Recipe] = []
    for recipe_name, upstream in recipes:
        dataset = chance.choice(datasets)
        recipe = world.create(
            Recipe,
            by=by,
            created_at=created_at,
            flow_id=flow.id,
            name=recipe_name,
            dataset_ids=() if upstream else (dataset.id,),
            upstream_ids=tuple(made[item].id for item in upstream),
        )
        made.append(recipe)
        for is_adhoc in (True, False):
            _add_output(world, recipe, chance, is_adhoc=is_adhoc)
    return flow


def _add_output(world: World, recipe: Recipe, chance: random.Random, *, is_adhoc: bool) -> None:
    """Give a recipe an output; the scheduled one of the last recipes also loads a table."""
    owner_id, created_at = recipe.creator_id, recipe.created_at
    output = world.create(
        OutputObject,
        by=owner_id,
        created_at=created_at,
        recipe_id=recipe.id,
        is_adhoc=is_adhoc,
        profiler=chance.random() < 0.5,  # noqa: PLR2004 - half of them
    )
    folder = "manual" if is_adhoc else "scheduled"
    world.create(
        WriteSetting,
        by=owner_id,
        created_at=created_at,
        output_object_id=output.id,
        path=f"gs://sandbox-output/{folder}/{recipe.id}.csv",
        action="create" if is_adhoc else "overwrite",
    )
    if recipe.upstream_ids and not is_adhoc:
        world.create(
            Publication,
            by=owner_id,
            created_at=created_at,
            output_object_id=output.id,
            connection_id=next(world.connections.live()).id,
            path=("analytics",),
            table_name=f"recipe_{recipe.id}",
            target_type="bigquery",
            action="truncateAndLoad",
        )


def seed_more_flows(world: World, count: int, *, with_schedules: bool) -> None:
    """Make ``count`` flows beside what is there; some start once a day. None if not above 0."""
    chance = world.random("more flows")
    people = [person.id for person in world.people.live()]
    names = [f"{thing} {word}, {place}" for word in _WORDS for place in _TOWNS for thing in _THINGS]
    for number in range(count):
        name = names[number % len(names)]
        if number >= len(names):
            name = f"{name} {number // len(names) + 1}"
        created_at = world.now() - timedelta(seconds=chance.randint(30 * 86_400, 365 * 86_400))
        recipes: Recipes = ((f"{name}: read", ()), (f"{name}: load", (0,)))
        flow = add_flow(
            world,
            name,
            recipes if chance.random() < _TWO_RECIPES else recipes[:1],
            by=chance.choice(people),
            created_at=created_at,
            failure_ratio=chance.choice(_FAILURE_RATIOS),
            chance=chance,
        )
        if with_schedules and number % _SCHEDULED_EACH == 0:
            add_schedule(
                world,
                flow,
                DailyTrigger(hour_of_day=chance.randrange(24), minute_of_hour=chance.randrange(60)),
                by=people[0],
            )


def add_schedule(
    world: World, target: Flow | Plan, trigger: ScheduleTrigger, *, by: int
) -> Schedule:
    """Make a schedule that is as old as what it starts."""
    kind = "plan" if isinstance(target, Plan) else "flow"
    return world.create(
        Schedule,
        by=by,
        created_at=target.created_at,
        name=target.name,
        triggers=(trigger,),
        tasks=(ScheduleTask(kind=kind, target_id=target.id),),
    )


def seed_folders(world: World, flows: Sequence[Flow], *, by: int) -> None:
    """Make folders in the name of person ``by``, and put flows into them.

    Draws nothing, so that what else the seed makes stays as it is.
    """
    created_at = world.now() - timedelta(days=365)
    for row in seeds().folders:
        folder = world.create(
            Folder, by=by, created_at=created_at, name=row.name, description=row.description
        )
        for flow in flows:
            if flow.name.startswith(row.beginnings):
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


def seed_functions(world: World, *, by: int) -> None:
    """Make the functions in the name of person ``by``, and let recipes use them.

    Draws by its own name, so that what else the seed makes stays as it is.
    """
    chance = world.random("functions")
    recipes = list(world.recipes.live())
    for row in seeds().functions:
        created_at = world.now() - timedelta(seconds=chance.randint(30 * 86_400, 365 * 86_400))
        function = world.create(
            UserDefinedFunction,
            by=by,
            created_at=created_at,
            name=row.name,
            description=row.description,
            input_types=row.input_types,
            output_type=row.output_type,
        )
        for recipe in chance.sample(recipes, k=min(row.users, len(recipes))):
            _use(recipe, function)


def _use(recipe: Recipe, function: UserDefinedFunction) -> None:
    recipe.function_ids = (*recipe.function_ids, function.id)


def seed_packages(world: World, *, by: int) -> None:
    """Make the parameters and macros in the name of person ``by``, two months ago."""
    created_at = world.now() - timedelta(days=60)
    for row in seeds().environment_parameters:
        world.create(EnvironmentParameter, by=by, created_at=created_at, **row)
    for row in seeds().macros:
        lists = {name: tuple(row[name]) for name in ("steps", "parameters")}
        world.create(Macro, by=by, created_at=created_at, **{**row, **lists})


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
