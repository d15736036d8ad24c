"""Functions that people wrote for their recipes, and which recipes use them."""

from __future__ import annotations

from monitor.sandbox.http.calls import Call, Handlers, Reply
from monitor.sandbox.http.crud.handlers import crud, found
from monitor.sandbox.http.workspace.kinds import FUNCTION
from monitor.sandbox.records.objects import Recipe


def list_recipes(call: Call) -> Reply:
    """List the recipes that use a function, whosever they are."""
    return call.list("wrangleddatasets", _users(call))


def count_usage(call: Call) -> Reply:
    """Count the recipes that use a function, and the flows that these belong to."""
    recipes = _users(call)
    return Reply(
        body={"flows": len({recipe.flow_id for recipe in recipes}), "recipes": len(recipes)}
    )


def _users(call: Call) -> list[Recipe]:
    function = found(call, FUNCTION)
    return [recipe for recipe in call.world.recipes.live() if function.id in recipe.function_ids]


HANDLERS: Handlers = {
    **crud(
        FUNCTION,
        listed="listUserDefinedFunctions",
        counted="countUserDefinedFunctions",
        read="getUserDefinedFunction",
        deleted="deleteUserDefinedFunction",
    ),
    "getListOfRecipesUsingThisFunction": list_recipes,
    "getCountOfAllFlowsAndRecipesUsingThisFunction": count_usage,
}
