"""What recipes and flows read, through whatever they build upon."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from monitor.sandbox.records.data import DatasetNode
from monitor.sandbox.records.objects import ImportedDataset, Recipe
from monitor.sandbox.world import World


def dataset_ids_of(world: World, *recipes: Recipe) -> tuple[int, ...]:
    """Return the imported datasets whose data recipes work on, their own first, each once."""
    read = (dataset_id for upward in _upwards(world, *recipes) for dataset_id in upward.dataset_ids)
    return tuple(dict.fromkeys(read))


def datasets_of(world: World, *recipes: Recipe) -> list[ImportedDataset]:
    """Return the imported datasets whose data recipes work on, those read directly first."""
    return _datasets(world, dataset_ids_of(world, *recipes))


def inputs_of(world: World, flow_id: int) -> list[ImportedDataset]:
    """Return the imported datasets in a flow: those its recipes work on, then unused ones."""
    read = dataset_ids_of(world, *world.recipes_of(flow_id))
    nodes = world.shelf(DatasetNode).live()
    return _datasets(
        world, [*read, *(node.dataset_id for node in nodes if node.flow_id == flow_id)]
    )


def flow_ids_with(world: World, dataset_id: int) -> set[int]:
    """Return the flows in which a dataset has a place, or is read by a recipe itself."""
    readers = {
        recipe.flow_id for recipe in world.recipes.live() if dataset_id in recipe.dataset_ids
    }
    nodes = world.shelf(DatasetNode).live()
    return readers | {node.flow_id for node in nodes if node.dataset_id == dataset_id}


def builds_upon(world: World, recipe: Recipe, other_id: int) -> bool:
    """True where ``other_id`` is the recipe itself or anything that it reads the output of."""
    return any(upward.id == other_id for upward in _upwards(world, recipe))


def _upwards(world: World, *recipes: Recipe) -> Iterator[Recipe]:
    """Give each recipe and all that it builds upon, the nearest first; every one of them once.

    What several build upon is gone through once, or a long chain would take for ever.
    """
    visited: set[int] = set()
    for recipe in recipes:
        waiting = deque([recipe] if recipe.id not in visited else [])
        visited.add(recipe.id)
        while waiting:
            one = waiting.popleft()
            yield one
            for upstream_id in one.upstream_ids:
                upstream = world.recipes.get(upstream_id, with_deleted=True)
                if upstream is not None and upstream_id not in visited:
                    visited.add(upstream_id)
                    waiting.append(upstream)


def _datasets(world: World, dataset_ids: Iterable[int]) -> list[ImportedDataset]:
    found = (world.imported_datasets.get(dataset_id_) for dataset_id_ in dict.fromkeys(dataset_ids))
    return [dataset_id_ for dataset_id_ in found if dataset_id_ is not None]
