"""The nodes of flows, and what recipes and flows read, through whatever they build upon.

Recipes and the places of imported datasets and of others' recipes have their ids from one
counter, so that an id names one node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from monitor.sandbox.world.records.objects import ImportedDataset, Recipe
from monitor.sandbox.world.records.parts import DatasetNode, FlowEdge, ReferenceNode
from monitor.sandbox.world.shelves import World

FlowNode: TypeAlias = Recipe | DatasetNode | ReferenceNode


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
    nodes = world.shelf(DatasetNode).having("flow_id", flow_id)
    return _datasets(world, [*read, *(node.dataset_id for node in nodes)])


def flow_ids_with(world: World, dataset_id: int) -> set[int]:
    """Return the flows in which a dataset has a place, or is read by a recipe itself."""
    readers = {
        recipe.flow_id for recipe in world.recipes.live() if dataset_id in recipe.dataset_ids
    }
    nodes = world.shelf(DatasetNode).having("dataset_id", dataset_id)
    return readers | {node.flow_id for node in nodes}


def builds_upon(world: World, recipe: Recipe, other_id: int) -> bool:
    """True where ``other_id`` is the recipe itself or anything that it reads the output of."""
    return any(upward.id == other_id for upward in _upwards(world, recipe))


def _upwards(world: World, *recipes: Recipe) -> Iterator[Recipe]:
    """Give each recipe and all that it builds upon, the nearest first; every one of them once.

    What several build upon is gone through once, or a long chain would take endless time.
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


def node_of(world: World, node_id: int, *, with_deleted: bool = False) -> FlowNode | None:
    """Return the node that an id names."""
    return (
        world.recipes.get(node_id, with_deleted=with_deleted)
        or world.shelf(DatasetNode).get(node_id, with_deleted=with_deleted)
        or world.shelf(ReferenceNode).get(node_id, with_deleted=with_deleted)
    )


def nodes_of(world: World, flow_id: int) -> list[FlowNode]:
    """Return the nodes of a flow, in the order of their ids."""
    found: list[FlowNode] = [
        *world.recipes_of(flow_id),
        *world.shelf(DatasetNode).having("flow_id", flow_id),
        *world.shelf(ReferenceNode).having("flow_id", flow_id),
    ]
    return sorted(found, key=lambda flow_node: flow_node.id)


def recipe_of_output(node: FlowNode) -> int | None:
    """Return the recipe whose result a node gives; None where it gives an imported dataset."""
    if isinstance(node, DatasetNode):
        return None
    return node.id if isinstance(node, Recipe) else node.recipe_id


def cut_edges(world: World, recipe: Recipe) -> None:
    """Delete the edges that led to a recipe from what it does not read any more."""
    for edge in world.shelf(FlowEdge).having("output_node_id", recipe.id):
        node = node_of(world, edge.input_node_id)
        if isinstance(node, DatasetNode):
            is_read = node.dataset_id in recipe.dataset_ids
        else:
            is_read = node is not None and recipe_of_output(node) in recipe.upstream_ids
        if not is_read:
            world.delete(edge)
