"""Functions that somebody wrote for the recipes, before the sandbox began."""

from __future__ import annotations

from datetime import timedelta

from monitor.sandbox.records.functions import UserDefinedFunction
from monitor.sandbox.records.objects import Recipe
from monitor.sandbox.world import World

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
