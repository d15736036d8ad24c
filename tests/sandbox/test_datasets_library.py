"""Tests of the dataset library: one list of imported datasets and recipes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest

from monitor.sandbox.world.records.objects import Flow, ImportedDataset
from monitor.sandbox.world.records.parts import ReferenceNode
from tests.sandbox.http_workspace import ADMIN_TOKEN, COLLEAGUE_TOKEN, Workspace, open_workspace

LIBRARY = "/v4/datasetLibrary"


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    """A workspace in which another flow refers to one recipe, and one dataset is hidden."""
    async with open_workspace() as found:
        world, owner = found.world, found.things.owner.id
        other = world.create(Flow, by=owner, name="Other")
        world.create(ReferenceNode, by=owner, flow_id=other.id, recipe_id=found.things.clean.id)
        connection = next(world.connections.live())
        world.create(
            ImportedDataset,
            by=owner,
            name="table",
            connection_id=connection.id,
            table_path=("public", "table"),
        )
        world.create(ImportedDataset, by=owner, name="hid", uri="gs://in/h", is_hidden=True)
        world.create(ImportedDataset, by=owner, name="notes.txt", uri="gs://in/notes.txt")
        yield found


async def shown(
    workspace: Workspace, query: Mapping[str, str], token: str | None = None
) -> list[tuple[str, str]]:
    """Return type and name of the listed rows, which the count agrees with."""
    filters = {"datasetsFilter": "all", **query}
    listed = await workspace.request(
        "GET", LIBRARY, query={**filters, "limit": "100", "includeCount": "true"}, token=token
    )
    counted = await workspace.request("GET", f"{LIBRARY}/count", query=filters, token=token)
    rows = [(row["type"], row["name"]) for row in listed.body["data"]]
    counted_by = {"ownershipFilter", "filter", "userIdFilter", "currentFlowId", "datasourceFlowId"}
    if query.keys() <= {*counted_by, "datasetsFilter", "schematized", "flowId"}:
        assert listed.body["count"] == counted.body["count"]
    counts = {name: sum(row == name for row, _ in rows) for name, _ in rows}
    assert {k: v for k, v in listed.body["count"].items() if v and k != "all"} == counts
    assert listed.body["count"]["all"] == len(rows)
    return rows


@pytest.mark.parametrize("path", [LIBRARY, f"{LIBRARY}/count"])
async def test_the_library_wants_to_know_of_what(workspace: Workspace, path: str) -> None:
    """Without ``datasetsFilter`` it is 400 ApiValidationFailed, with another word the usual."""
    missing = await workspace.get(path)
    wrong = await workspace.get(path, datasetsFilter="some")
    assert missing.is_refused(400, "ApiValidationFailed", "datasetsFilter")
    assert wrong.is_refused(400, "ValidationFailed", "datasetsFilter")


async def test_the_library_shows_three_types(workspace: Workspace) -> None:
    """Imported datasets, recipes, and those recipes that another flow refers to."""
    rows = await shown(workspace, {})
    assert rows == [
        ("imported", "notes.txt"),
        ("imported", "table"),
        ("imported", "orders.csv"),
        ("recipe", "Totals"),
        ("reference", "Clean orders"),
    ]
    for name in ("imported", "reference", "recipe"):
        assert await shown(workspace, {"datasetsFilter": name}) == [
            row for row in rows if row[0] == name
        ]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"filter": "ord", "filterType": "contains"}, ["orders.csv", "Clean orders"]),
        ({"hidden": "true", "datasetsFilter": "imported"}, ["hid"]),
        ({"baseStorage": "true"}, ["notes.txt", "orders.csv"]),
        ({"schematized": "true", "datasetsFilter": "imported"}, ["table", "orders.csv"]),
        ({"currentFlowId": "101"}, ["orders.csv", "Totals", "Clean orders"]),
        ({"datasourceFlowId": "999"}, []),
        ({"userIdFilter": "999"}, []),
        ({"sort": "-name", "datasetsFilter": "imported"}, ["table", "orders.csv", "notes.txt"]),
    ],
)
async def test_the_library_is_narrowed(
    workspace: Workspace, query: dict[str, str], names: list[str]
) -> None:
    """Each filter narrows the list, and the count with it."""
    assert [name for _, name in await shown(workspace, query)] == names


async def test_the_datasets_of_a_connection(workspace: Workspace) -> None:
    """``connectionId`` leaves tables of that connection."""
    connection = next(workspace.world.connections.live())
    assert await shown(workspace, {"connectionId": str(connection.id)}) == [("imported", "table")]


async def test_a_flows_datasets_come_first(workspace: Workspace) -> None:
    """``flowId`` changes the order and nothing else."""
    rows = await shown(workspace, {})
    ordered = await shown(workspace, {"flowId": str(workspace.things.orders.id)})
    assert sorted(ordered) == sorted(rows)
    assert {name for _, name in ordered[:3]} == {"orders.csv", "Clean orders", "Totals"}


async def test_the_library_is_ones_own(workspace: Workspace) -> None:
    """By default it is the caller's; shared flows widen it, and administrators see all."""
    things = workspace.things
    assert await shown(workspace, {}, COLLEAGUE_TOKEN) == [("recipe", "Count")]
    workspace.world.update(things.orders, shared_with=frozenset({things.colleague.id}))
    shared = await shown(workspace, {"ownershipFilter": "shared"}, COLLEAGUE_TOKEN)
    assert [name for _, name in shared] == ["orders.csv", "Totals", "Clean orders"]
    everything = await shown(workspace, {"ownershipFilter": "all"}, ADMIN_TOKEN)
    assert len(everything) == 6
    own = await shown(
        workspace,
        {"ownershipFilter": "all", "userIdFilter": str(things.colleague.id)},
        ADMIN_TOKEN,
    )
    assert own == [("recipe", "Count")]


async def test_pages_and_subjects(workspace: Workspace) -> None:
    """Pages follow each other without gaps, and who has access is shown on demand."""
    pages = [
        await workspace.get(LIBRARY, datasetsFilter="all", limit="2", offset=str(offset))
        for offset in (0, 2, 4)
    ]
    names = [row["name"] for page in pages for row in page.body["data"]]
    assert names == [name for _, name in await shown(workspace, {})]
    assert "count" not in pages[0].body
    answer = await workspace.get(
        LIBRARY, datasetsFilter="imported", includeAssociatedSubjects="true"
    )
    assert all(row["associatedSubjects"] for row in answer.body["data"])
