"""Tests of wrangled datasets: what they read, what of it can be swapped, and what then runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.sandbox.world.lineage import builds_upon, datasets_of
from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    ImportedDataset,
    OutputObject,
    Recipe,
)
from monitor.sandbox.world.records.parts import ReferenceNode
from monitor.sandbox.world.records.runs import JobGroup
from monitor.sandbox.world.shelves import World
from tests.clocks import ManualClock
from tests.sandbox.http_workspace import (
    ADMIN_TOKEN,
    COLLEAGUE_TOKEN,
    Workspace,
    open_workspace,
)

RECIPES = "/v4/wrangledDatasets"


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as found:
        yield found


def dataset_of(workspace: Workspace, name: str = "new.csv", **values: Any) -> ImportedDataset:
    values = values or {"uri": f"gs://in/{name}"}
    return workspace.world.create(
        ImportedDataset, by=workspace.things.owner.id, name=name, **values
    )


async def test_a_recipe_lives_and_dies(workspace: Workspace) -> None:
    """The body that Airflow's hook sends makes one; it is listed, renamed, deleted, then 404."""
    flow_id, dataset = workspace.things.orders.id, dataset_of(workspace)
    before = (await workspace.get(f"{RECIPES}/count")).body["count"]

    made = await workspace.post(
        RECIPES,
        {"importedDataset": {"id": dataset.id}, "flow": {"id": flow_id}, "name": "Cleaned"},
    )
    path = f"{RECIPES}/{made.body['id']}"

    assert made.status == 201
    assert (made.body["flow"], made.body["wrangled"]) == ({"id": flow_id}, True)
    assert (await workspace.get(path)).body == made.body
    assert made.body["id"] in (await workspace.get(RECIPES, filter="Cleaned")).ids
    renamed = await workspace.request("PATCH", path, body={"name": "Cleaner"})
    assert renamed.body.keys() == {"id", "updater", "createdAt", "updatedAt"}
    shown = await workspace.get(path, embed="recipe,flow,importedDatasets")
    assert shown.body["recipe"]["name"] == "Cleaner"
    assert shown.body["flow"]["name"] == "Orders"
    assert [
        importeddataset["name"] for importeddataset in shown.body["importedDatasets"]["data"]
    ] == ["new.csv"]
    assert (await workspace.get(f"{RECIPES}/count")).body["count"] == before + 1

    assert (await workspace.request("DELETE", path)).status == 204
    gone = await workspace.get(path)
    assert gone.is_refused(404, "DataNotFoundException", str(made.body["id"]))
    assert (await workspace.get(f"{RECIPES}/count")).body["count"] == before


async def test_a_recipe_is_named_after_its_input(workspace: Workspace) -> None:
    """Without a name of its own it has that of what it reads."""
    body = {
        "wrangledDataset": {"id": workspace.things.clean.id},
        "flow": {"id": workspace.things.orders.id},
    }
    made = await workspace.post(RECIPES, body)
    assert made.body["name"] == "Clean orders"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"flow": None}, '"flow"'),
        ({"flow": 7}, '"flow"'),
        ({"flow": {"id": 999_999}}, '"flow"'),
        ({"importedDataset": None}, '"importedDataset"'),
        ({"importedDataset": {"id": 999_999}}, '"importedDataset.id"'),
        ({"importedDataset": {}}, '"importedDataset.id"'),
        ({"wrangledDataset": {"id": 1201}}, '"wrangledDataset"'),
        ({"importedDataset": None, "wrangledDataset": {"id": 1}}, '"wrangledDataset.id"'),
        ({"importedDataset": None, "wrangledDataset": {"id": "x"}}, '"wrangledDataset.id"'),
        ({"name": 7}, '"name"'),
    ],
)
async def test_a_bad_recipe_names_its_field(
    workspace: Workspace, change: dict[str, Any], named: str
) -> None:
    """A missing, unknown or doubled field is 400 and named; nothing is made."""
    body = {"importedDataset": {"id": 301}, "flow": {"id": 101}, "name": "x", **change}
    before = len(workspace.world.recipes)
    answer = await workspace.post(RECIPES, body)
    assert answer.is_refused(400, "ValidationFailed", named)
    assert len(workspace.world.recipes) == before


async def test_a_swapped_input_is_what_the_next_run_reads(workspace: Workspace) -> None:
    """The next run names and reads the new data; the one before keeps its own."""
    recipe = workspace.things.clean
    connection = next(workspace.world.connections.live())
    table = dataset_of(workspace, "t", connection_id=connection.id, table_path=("public", "t"))
    path = f"{RECIPES}/{recipe.id}/primaryInputDataset"
    before = workspace.job_group(recipe)

    swapped = await workspace.request("PUT", path, body={"importedDataset": {"id": table.id}})
    after = workspace.job_group(recipe)

    assert (swapped.status, swapped.body["id"]) == (200, recipe.id)
    assert (await workspace.get(path)).body["importedDataset"]["id"] == table.id

    async def read(run: JobGroup) -> list[str]:
        answer = await workspace.get(f"/v4/jobGroups/{run.id}/inputs")
        return [item["name"] for item in answer.body["data"]]

    assert (await read(before), await read(after)) == (["orders.csv"], ["t"])
    jobs = [[job.job_type for job in workspace.world.jobs_of(run)] for run in (before, after)]
    assert ("ingest" in jobs[0], "ingest" in jobs[1]) == (False, True)


async def test_a_recipe_can_be_the_input(workspace: Workspace) -> None:
    """Reading another recipe's output leads a run to that one's data, and back by a swap."""
    things = workspace.things
    path = f"{RECIPES}/{things.clean.id}/primaryInputDataset"
    other = await workspace.post(
        RECIPES,
        {"importedDataset": {"id": dataset_of(workspace).id}, "flow": {"id": things.orders.id}},
    )

    await workspace.request("PUT", path, body={"wrangledDataset": {"id": other.body["id"]}})
    assert (await workspace.get(path)).body["wrangledDataset"]["id"] == other.body["id"]
    assert [dataset.name for dataset in datasets_of(workspace.world, things.clean)] == ["new.csv"]

    await workspace.request("PUT", path, body={"importedDataset": {"id": 301}})
    assert (await workspace.get(path)).body["importedDataset"]["name"] == "orders.csv"
    assert things.clean.upstream_ids == ()


async def test_a_swap_leaves_other_inputs(workspace: Workspace) -> None:
    """Of a recipe that joins several inputs, only the first is swapped, whatever it is."""
    world, things = workspace.world, workspace.things
    joined, other = dataset_of(workspace, "joined"), dataset_of(workspace, "other")
    recipe = things.totals
    world.update(recipe, dataset_ids=(301, joined.id), upstream_ids=(things.clean.id,))
    path = f"{RECIPES}/{recipe.id}/primaryInputDataset"
    third = world.create(Recipe, by=things.owner.id, flow_id=things.orders.id, name="Third")
    swaps: list[tuple[str, int, set[int], set[int]]] = [
        ("importedDataset", other.id, {other.id, joined.id}, {things.clean.id}),
        ("wrangledDataset", third.id, {joined.id}, {third.id, things.clean.id}),
        ("wrangledDataset", third.id, {joined.id}, {third.id, things.clean.id}),
        ("importedDataset", 301, {301, joined.id}, {things.clean.id}),
    ]
    for name, source_id, datasets, recipes in swaps:
        answer = await workspace.request("PUT", path, body={name: {"id": source_id}})
        assert answer.status == 200
        assert (await workspace.get(path)).body[name]["id"] == source_id
        assert set(recipe.dataset_ids) == datasets
        assert set(recipe.upstream_ids) == recipes


async def test_a_circle_is_refused(workspace: Workspace) -> None:
    """A recipe reads neither itself nor what builds upon it, however far."""
    things = workspace.things
    path = f"{RECIPES}/{things.clean.id}/primaryInputDataset"
    for recipe in (things.clean, things.totals):
        answer = await workspace.request("PUT", path, body={"wrangledDataset": {"id": recipe.id}})
        assert answer.is_refused(400, "ValidationFailed", "circle")
    assert things.clean.upstream_ids == ()


async def test_a_recipe_that_reads_nothing_has_no_input(workspace: Workspace) -> None:
    """The input of a recipe without any is 404; a swap gives it one."""
    path = f"{RECIPES}/{workspace.things.count.id}/primaryInputDataset"
    missing = await workspace.request("GET", path, token=ADMIN_TOKEN)
    assert missing.is_refused(404, "DataNotFoundException", str(workspace.things.count.id))
    body = {"importedDataset": {"id": dataset_of(workspace).id}}
    assert (await workspace.request("PUT", path, body=body, token=ADMIN_TOKEN)).status == 200
    assert (await workspace.request("GET", path, token=ADMIN_TOKEN)).status == 200


async def test_strangers_change_no_recipe(workspace: Workspace) -> None:
    """Neither renaming, swapping nor deleting is for who does not share the flow."""
    path = f"{RECIPES}/{workspace.things.clean.id}"
    input_body = {"importedDataset": {"id": 301}}
    for method, address, body in (
        ("PATCH", path, {"name": "mine"}),
        ("PUT", f"{path}/primaryInputDataset", input_body),
        ("DELETE", path, None),
    ):
        answer = await workspace.request(method, address, body=body, token=COLLEAGUE_TOKEN)
        assert answer.is_refused(403, "AccessControlException", "wrangledDataset")
    listed = await workspace.request("GET", RECIPES, token=COLLEAGUE_TOKEN)
    assert listed.ids == [workspace.things.count.id]


async def test_another_flow_refers_to_a_recipe(workspace: Workspace) -> None:
    """A reference is made once, counts as the recipe where it is an input, and goes with it."""
    things, path = workspace.things, f"{RECIPES}/{workspace.things.clean.id}"
    other = workspace.world.create(Flow, by=things.owner.id, name="Other")
    body = {"flow": {"id": other.id}}

    first = await workspace.post(f"{path}/addToFlow", body)
    second = await workspace.post(f"{path}/addToFlow", body)
    made = await workspace.post(
        RECIPES, {"wrangledDataset": {"id": first.body["id"]}, **body, "name": "Downstream"}
    )
    own = await workspace.post(f"{path}/addToFlow", {"flow": {"id": things.orders.id}})

    assert first.status == 201
    assert first.body == second.body
    assert first.body["referencedFlowNode"] == {"id": things.clean.id}
    assert own.is_refused(400, "ValidationFailed", '"flow.id"')
    downstream = workspace.world.recipes.get(made.body["id"])
    assert downstream is not None
    assert downstream.upstream_ids == (things.clean.id,)
    assert [dataset.name for dataset in datasets_of(workspace.world, downstream)] == ["orders.csv"]
    shown = await workspace.get(path)
    assert shown.body["referenceinfo"] == {"id": things.clean.id, "name": "Clean orders"}

    await workspace.request("DELETE", path)
    assert not any(recipe.upstream_ids for recipe in workspace.world.recipes.live())
    assert list(workspace.world.shelf(ReferenceNode).live()) == []


async def test_a_deleted_recipe_deletes_its_outputs(workspace: Workspace) -> None:
    """Its outputs are deleted with it; recipes that build upon it stay without that input."""
    things = workspace.things
    assert (await workspace.request("DELETE", f"{RECIPES}/{things.clean.id}")).status == 204
    assert things.totals.upstream_ids == ()
    recipes = {
        output_object.recipe_id for output_object in workspace.world.shelf(OutputObject).live()
    }
    assert recipes == {things.totals.id, things.count.id}
    assert isinstance(next(workspace.world.connections.live()), Connection)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_links_that_were_let_in_never_make_a_circle(links: list[tuple[int, int]]) -> None:
    """Whatever is linked in whatever order, no recipe comes to build upon itself."""
    world = World(clock=ManualClock())
    recipes = [world.create(Recipe, by=1, flow_id=1, name=f"{n}") for n in range(6)]
    for reader, source in links:
        if not builds_upon(world, recipes[source], recipes[reader].id):
            recipes[reader].upstream_ids += (recipes[source].id,)
    for recipe in recipes:
        upstream = [world.recipes.get(upstream_id_) for upstream_id_ in recipe.upstream_ids]
        assert not any(
            builds_upon(world, upstream_id_, recipe.id)
            for upstream_id_ in upstream
            if upstream_id_ is not None
        )
