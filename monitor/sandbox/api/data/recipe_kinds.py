"""Recipes, which the API calls wrangled datasets, and references to those of other flows."""

from __future__ import annotations

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.response.kinds import (
    Association,
    Kind,
    OnDelete,
    Reference,
    Resource,
    View,
    Visibility,
)
from monitor.sandbox.api.response.rendering import NAMED, OWN, reference, stamps
from monitor.sandbox.world.records.objects import Flow, ImportedDataset, Recipe
from monitor.sandbox.world.records.parts import ReferenceNode, UserDefinedFunction
from monitor.sandbox.world.shelves import World


def is_referenced(world: World, recipe: Recipe) -> bool:
    """True where another flow refers to a recipe."""
    return any(node.recipe_id == recipe.id for node in world.shelf(ReferenceNode).live())


def _reference_info(view: View, recipe: Recipe) -> Json:
    return {"id": recipe.id, "name": recipe.name} if is_referenced(view.world, recipe) else None


RECIPE: Kind[Recipe] = Kind(
    record=Recipe,
    name="wrangledDataset",
    plural="wrangleddatasets",
    model="WrangledDataset",
    requests=("WrangledDatasetCreateRequest", "WrangledDatasetUpdateRequest"),
    references=(
        Reference(attribute="flow_id", target=Flow, shown="flow", sent="flow"),
        Reference(
            attribute="dataset_ids",
            target=ImportedDataset,
            on_delete=OnDelete.REFUSE,
            many=True,
            embeds_as="importedDatasets",
        ),
        Reference(attribute="upstream_ids", target=Recipe, on_delete=OnDelete.CLEAR, many=True),
        Reference(
            attribute="function_ids",
            target=UserDefinedFunction,
            on_delete=OnDelete.CLEAR,
            many=True,
        ),
    ),
    home="flow_id",
    visibility=Visibility.HOME,
    constants={"wrangled": True, "activeSample": None, "associatedPeople": None},
    computed={
        "recipe": lambda _, record: reference(record.id),
        "referenceinfo": _reference_info,
    },
    # Which of the two is the input is decided by the handler.
    unkept=frozenset({"importedDataset", "wrangledDataset"}),
    associations={
        "recipe": Association(key="recipe", target="recipes", find=lambda _, record: record),
    },
)


REFERENCE_NODE: Kind[ReferenceNode] = Kind(
    record=ReferenceNode,
    name="flowNode",
    plural="referencenodes",
    model="ReferenceNode",
    references=(
        Reference(attribute="flow_id", target=Flow, shown="flow"),
        Reference(attribute="recipe_id", target=Recipe, shown="referencedFlowNode"),
    ),
    home="flow_id",
    constants={"activeSample": None, "wrangled": False},
    also_shown=("createdAt", "updatedAt", "creator", "updater"),
)


def recipe(view: View, recipe: Recipe) -> dict[str, Json]:
    """Return a wrangled dataset's script."""
    del view
    return {
        **stamps(recipe),
        "name": recipe.name,
        "description": recipe.description,
        "active": True,
    }


RECIPES = Resource(plural="recipes", render=recipe, columns=NAMED, associations=OWN)
