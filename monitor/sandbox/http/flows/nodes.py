"""The nodes of flows: recipes, and the places of imported datasets and of others' recipes.

All three have their ids from one counter, so that an id names one node.
"""

from __future__ import annotations

from typing import TypeAlias

from monitor.sandbox.records.data import DatasetNode, ReferenceNode
from monitor.sandbox.records.flows import FlowEdge
from monitor.sandbox.records.objects import Recipe
from monitor.sandbox.world import World

FlowNode: TypeAlias = Recipe | DatasetNode | ReferenceNode


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
        *(
            dataset_node
            for dataset_node in world.shelf(DatasetNode).live()
            if dataset_node.flow_id == flow_id
        ),
        *(
            reference_node
            for reference_node in world.shelf(ReferenceNode).live()
            if reference_node.flow_id == flow_id
        ),
    ]
    return sorted(found, key=lambda flow_node: flow_node.id)


def recipe_behind(node: FlowNode) -> int | None:
    """Return the recipe whose result a node gives; None where it gives an imported dataset."""
    if isinstance(node, DatasetNode):
        return None
    return node.id if isinstance(node, Recipe) else node.recipe_id


def cut_edges(world: World, recipe: Recipe) -> None:
    """Delete the edges that led to a recipe from what it does not read any more."""
    for edge in world.shelf(FlowEdge).live():
        if edge.output_node_id != recipe.id:
            continue
        node = node_of(world, edge.input_node_id)
        if isinstance(node, DatasetNode):
            is_read = node.dataset_id in recipe.dataset_ids
        else:
            is_read = node is not None and recipe_behind(node) in recipe.upstream_ids
        if not is_read:
            world.delete(edge)
