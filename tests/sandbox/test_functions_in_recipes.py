"""User-defined functions: who uses them, and what becomes of recipes when they go."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.catalogue.operations import Edition
from monitor.sandbox.world.records.objects import Recipe
from monitor.sandbox.world.records.parts import UserDefinedFunction
from monitor.sandbox.world.seeding.seed import seed_world
from monitor.sandbox.world.shelves import World
from tests.clocks import ManualClock
from tests.sandbox.http_workspace import ADMIN_TOKEN, Workspace, open_workspace

FUNCTIONS = "/v4/userDefinedFunctions"


def furnish(workspace: Workspace) -> tuple[UserDefinedFunction, UserDefinedFunction]:
    """Make two functions of the colleague's: three recipes use one, one recipe the other."""
    world, things = workspace.world, workspace.things
    one, other = (
        world.create(UserDefinedFunction, by=things.colleague.id, name=name)
        for name in ("CLEAN_PHONE", "NET_AMOUNT")
    )
    things.clean.function_ids = (one.id, other.id)
    things.totals.function_ids = things.count.function_ids = (one.id,)
    return one, other


async def test_usage_counts_recipes_and_their_flows() -> None:
    """List, count, recipes and usage of functions agree."""
    async with open_workspace(Edition.PL) as workspace:
        one, other = furnish(workspace)
        things = workspace.things
        listed = await workspace.get(FUNCTIONS)
        count = await workspace.get(f"{FUNCTIONS}/count")
        read = await workspace.get(f"{FUNCTIONS}/{one.id}")
        recipes = await workspace.get(f"{FUNCTIONS}/{one.id}/recipes")
        usages = [
            (await workspace.get(f"{FUNCTIONS}/{row.id}/usageCount")).body for row in (one, other)
        ]

    assert listed.ids == [other.id, one.id]
    assert count.body == {"count": 2}
    assert read.body == listed.body["data"][1]
    assert read.body["name"] == "CLEAN_PHONE"
    assert recipes.ids == [things.clean.id, things.totals.id, things.count.id][::-1]
    assert usages == [{"flows": 2, "recipes": 3}, {"flows": 1, "recipes": 1}]


async def test_a_deleted_function_leaves_its_recipes() -> None:
    """Only its maker and administrators delete it; recipes stay and use what is left."""
    async with open_workspace(Edition.PL) as workspace:
        one, other = furnish(workspace)
        path = f"{FUNCTIONS}/{one.id}"
        refused = await workspace.request("DELETE", path)
        gone = await workspace.request("DELETE", path, token=ADMIN_TOKEN)
        answers = [await workspace.get(path + end) for end in ("", "/recipes", "/usageCount")]
        listed = await workspace.get(FUNCTIONS)
        count = await workspace.get(f"{FUNCTIONS}/count")
        recipes = list(workspace.world.shelf(Recipe).live())

    assert refused.is_refused(403, "AccessControlException")
    assert (gone.status, gone.content) == (204, b"")
    assert all(answer.is_refused(404, "DataNotFoundException") for answer in answers)
    assert (listed.ids, count.body) == ([other.id], {"count": 1})
    assert len(recipes) == 3
    assert [recipe.function_ids for recipe in recipes] == [(other.id,), (), ()]


def test_a_seeded_world_has_functions_that_recipes_use() -> None:
    """The same seed makes the same three; two of them are used."""
    used = []
    for _ in range(2):
        world = World(clock=ManualClock(datetime(2026, 11, 21, tzinfo=UTC)), seed=3)
        seed_world(world)
        functions = list(world.shelf(UserDefinedFunction).live())
        used.append(
            [
                sum(function.id in recipe.function_ids for recipe in world.recipes.live())
                for function in functions
            ]
        )

    assert used[0] == used[1] == [3, 2, 0]
