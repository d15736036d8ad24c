"""Thousands of recipes that build upon one another take moments, not hours."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from monitor.sandbox.world.lineage import inputs_of
from monitor.sandbox.world.records.objects import Flow, ImportedDataset, OutputObject, Recipe
from monitor.sandbox.world.shelves import World
from tests.sandbox.http_workspace import Workspace, open_workspace

RECIPES = 6_000
MOST_SECONDS = 1.5  # going through the chain once for each of its recipes took three and more


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as found:
        yield found


def chained(world: World, *, by: int) -> tuple[Flow, ImportedDataset]:
    """Make a flow in which every recipe reads the result of the one before."""
    flow = world.create(Flow, by=by, name="A long way")
    dataset = world.create(ImportedDataset, by=by, name="Source", uri="gs://a/b.csv")
    last = world.create(Recipe, by=by, flow_id=flow.id, name="R", dataset_ids=(dataset.id,))
    for _ in range(RECIPES - 1):
        last = world.create(Recipe, by=by, flow_id=flow.id, name="R", upstream_ids=(last.id,))
    return flow, dataset


@contextmanager
def in_moments() -> Iterator[None]:
    """Count what the processor works, so that a busy machine is no failure."""
    began = time.process_time()
    yield
    assert time.process_time() - began < MOST_SECONDS


async def test_inputs_of_a_long_chain_are_found_at_once(workspace: Workspace) -> None:
    """All recipes read one dataset, and it is shown once."""
    flow, dataset = chained(workspace.world, by=workspace.things.owner.id)
    with in_moments():
        answer = await workspace.request("GET", f"/v4/flows/{flow.id}/inputs")
    assert answer.ids == [dataset.id]


async def test_a_long_chain_is_deleted_at_once(workspace: Workspace) -> None:
    """Everything in the flow goes, and what it read stays."""
    world = workspace.world
    flow, dataset = chained(world, by=workspace.things.owner.id)
    with in_moments():
        answer = await workspace.request("DELETE", f"/v4/flows/{flow.id}")
    assert answer.status == 204, answer.content
    assert world.recipes_of(flow.id) == []
    assert world.imported_datasets.get(dataset.id) is dataset


@pytest.mark.parametrize("name", ["flowId", "currentFlowId"])
async def test_the_library_reads_a_flow_once(workspace: Workspace, name: str) -> None:
    """The datasets of a flow are found among many, in a flow of many."""
    world = workspace.world
    by = workspace.things.owner.id
    flow, dataset = chained(world, by=by)
    for index in range(1_000):
        world.create(ImportedDataset, by=by, name=f"Other {index}", uri=f"gs://a/{index}.csv")
    query = {"datasetsFilter": "imported", name: str(flow.id)}
    with in_moments():
        answer = await workspace.request("GET", "/v4/datasetLibrary", query=query)
    assert answer.ids[0] == dataset.id, answer.content


async def test_a_flow_of_many_outputs_starts_at_once(workspace: Workspace) -> None:
    """One pass finds which recipes have an output."""
    world, by = workspace.world, workspace.things.owner.id
    flow, _ = chained(world, by=by)
    for recipe in world.recipes_of(flow.id):
        world.create(OutputObject, by=by, recipe_id=recipe.id)
    with in_moments():
        answer = await workspace.request("POST", f"/v4/flows/{flow.id}/run", body={})
    assert len(answer.body["data"]) == 1, answer.content


async def test_inputs_come_in_the_order_of_the_recipes(workspace: Workspace) -> None:
    """The inputs of the first recipe stand before those that only later ones read."""
    world, by = workspace.world, workspace.things.owner.id
    flow = world.create(Flow, by=by, name="Two ways")
    far, near, own = (
        world.create(ImportedDataset, by=by, name=name, uri=f"gs://a/{name}.csv")
        for name in ("far", "near", "own")
    )
    other = world.create(Flow, by=by, name="Elsewhere")
    source = world.create(Recipe, by=by, flow_id=other.id, name="S", dataset_ids=(far.id,))
    world.create(
        Recipe,
        by=by,
        flow_id=flow.id,
        name="A",
        dataset_ids=(near.id,),
        upstream_ids=(source.id,),
    )
    world.create(
        Recipe,
        by=by,
        flow_id=flow.id,
        name="B",
        dataset_ids=(own.id,),
        upstream_ids=(source.id,),
    )
    assert [input_.name for input_ in inputs_of(world, flow.id)] == ["near", "far", "own"]
