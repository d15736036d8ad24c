"""Functions that people wrote for their recipes, and which recipes use them."""

from __future__ import annotations

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import crud, found
from monitor.sandbox.api.response.kinds import Kind, Visibility
from monitor.sandbox.world.records.objects import Recipe
from monitor.sandbox.world.records.parts import UserDefinedFunction

FUNCTION = Kind(
    record=UserDefinedFunction,
    visibility=Visibility.EVERYBODY,
)


def list_recipes(call: Call) -> Reply:
    """List the recipes that use a function, whosever they are."""
    return call.list("wrangleddatasets", _users(call)[::-1])


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
    **crud(FUNCTION),
    "getListOfRecipesUsingThisFunction": list_recipes,
    "getCountOfAllFlowsAndRecipesUsingThisFunction": count_usage,
}
