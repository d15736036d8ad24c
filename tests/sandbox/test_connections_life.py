"""Tests of connections: who sees them, what they never reveal, and what they answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.sandbox.api.data.connections import OPEN_CREDENTIALS
from monitor.sandbox.world.records.objects import Connection, ImportedDataset
from tests.sandbox.http_workspace import ADMIN_TOKEN, COLLEAGUE_TOKEN, Workspace, open_workspace

SECRET = "not-for-anybody"
BODY: dict[str, Any] = {
    "name": "Orders",
    "vendor": "postgres",
    "vendorName": "PostgreSQL",
    "type": "jdbc",
    "credentialType": "basic",
    "host": "db.example.com",
    "port": 5432,
    "params": {"database": "orders"},
    "credentials": [{"username": "reader", "password": SECRET}],
    "advancedCredentials": {"username": "root", "key": SECRET},
    "oauth2StateId": SECRET,
}


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as found:
        yield found


async def make(workspace: Workspace, **changes: Any) -> dict[str, Any]:
    """Make a connection in the owner's name."""
    answer = await workspace.post("/v4/connections", {**BODY, **changes})
    assert answer.status == 201, answer.content
    found: dict[str, Any] = answer.body
    return found


async def test_a_connection_lives_and_dies(workspace: Workspace) -> None:
    """A new connection is read, listed, counted and deleted, and then 404."""
    before = (await workspace.get("/v4/connections/count")).body["count"]
    made = await make(workspace)
    path = f"/v4/connections/{made['id']}"

    assert (await workspace.get(path)).body == made
    assert {name: made[name] for name in ("name", "vendor", "host", "port", "params")} == {
        name: BODY[name] for name in ("name", "vendor", "host", "port", "params")
    }
    assert made["id"] in (await workspace.get("/v4/connections")).ids
    assert (await workspace.get("/v4/connections/count")).body == {"count": before + 1}

    assert (await workspace.request("DELETE", path)).status == 204
    for suffix in ("", "/status"):
        gone = await workspace.get(path + suffix)
        assert gone.is_refused(404, "DataNotFoundException", str(made["id"]))
    assert (await workspace.get("/v4/connections/count")).body == {"count": before}


async def test_no_answer_reveals_a_secret(workspace: Workspace) -> None:
    """Credentials are shown without what only their owner knows, wherever a connection is."""
    made = await make(workspace, isGlobal=True)
    dataset = await workspace.post(
        "/v4/importedDatasets",
        {"name": "o", "connectionId": made["id"], "jdbcTable": "orders", "jdbcPath": ["public"]},
    )
    answers = [
        await workspace.get(f"/v4/connections/{made['id']}"),
        await workspace.get("/v4/connections", embed="creator"),
        await workspace.get(f"/v4/importedDatasets/{dataset.body['id']}", embed="connection"),
    ]

    assert made["credentials"] == [{"username": "reader"}]
    assert made["advancedCredentials"] == [{"username": "root"}]
    assert made["hasCredentials"] is True
    assert all(
        SECRET not in json.dumps(item) for item in (made, *(answer.body for answer in answers))
    )
    assert SECRET not in repr(workspace.world.connections.get(made["id"]))
    assert "password" not in OPEN_CREDENTIALS


async def test_others_see_global_connections_only(workspace: Workspace) -> None:
    """A list shows one's own and global ones; an administrator's shows all."""
    own = (await make(workspace))["id"]
    everybodys = (await make(workspace, isGlobal=True))["id"]

    async def visible_to(token: str, **query: str) -> set[int]:
        answer = await workspace.request("GET", "/v4/connections", token=token, query=query)
        counted = await workspace.request("GET", "/v4/connections/count", token=token, query=query)
        assert counted.body["count"] == len(answer.ids)
        return {own, everybodys} & set(answer.ids)

    assert await visible_to(COLLEAGUE_TOKEN) == {everybodys}
    assert await visible_to(ADMIN_TOKEN) == {own, everybodys}
    assert await visible_to(workspace.token, sharedRole="owner") == {own, everybodys}
    assert await visible_to(COLLEAGUE_TOKEN, sharedRole="owner") == set()
    refused = await workspace.request(
        "DELETE", f"/v4/connections/{everybodys}", token=COLLEAGUE_TOKEN
    )
    assert refused.is_refused(403, "AccessControlException", "connection")


async def test_connections_are_chosen_by_what_they_are(workspace: Workspace) -> None:
    """``vendors`` and ``operations`` narrow the list, the latter by what connectors can do."""
    files = (await make(workspace, vendor="sftp", vendorName="SFTP", type="remotefile"))["id"]
    table = (await make(workspace))["id"]

    async def chosen(**query: str) -> set[int]:
        return {files, table} & set((await workspace.get("/v4/connections", **query)).ids)

    assert await chosen(vendors="sftp,mysql") == {files}
    assert await chosen(operations="publish") == {table}
    assert await chosen(operations="import") == {files, table}
    wrong = await workspace.get("/v4/connections", operations="guess")
    assert wrong.is_refused(400, "ValidationFailed", "operations")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"sort": "-port"}, ["c", "a", "b"]),
        ({"sort": "name", "limit": "2", "offset": "1"}, ["b", "c"]),
        ({"filter": "b"}, ["b"]),
        ({"filter": "HOST-A", "filterFields": "host", "filterType": "exactIgnoreCase"}, ["a"]),
        (
            {"filter": "host", "filterFields": "name,host", "filterType": "contains"},
            ["c", "b", "a"],
        ),
        ({"includeDeleted": "true", "sort": "name"}, ["a", "b", "c", "gone"]),
    ],
)
async def test_the_list_of_connections_obeys_its_query(
    workspace: Workspace, query: dict[str, str], names: list[str]
) -> None:
    """Order, page and filters go by the fields that a connection shows; the count agrees."""
    for connection in workspace.world.connections.live():
        workspace.world.connections.forget(connection.id)
    for name, port in (("a", 20), ("b", 10), ("c", 30), ("gone", 40)):
        made = await make(workspace, name=name, port=port, host=f"host-{name}")
    await workspace.request("DELETE", f"/v4/connections/{made['id']}")

    listed = await workspace.get(
        "/v4/connections", fields="name;creator", embed="creator", includeCount="true", **query
    )

    assert [row["name"] for row in listed.body["data"]] == names
    assert all(row.keys() == {"name", "creator"} for row in listed.body["data"])
    assert listed.body["data"][0]["creator"]["name"] == "Owner"
    counted = await workspace.get("/v4/connections/count", **query)
    assert counted.body["count"] == listed.body["count"]
    unknown = await workspace.get("/v4/connections", embed="flows")
    assert unknown.is_refused(400, "ValidationFailed", "Valid associations are creator, updater")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": None}, "name"),
        ({"params": "x"}, "params"),
        ({"type": "pigeon"}, "type"),
        ({"credentialType": "smile"}, "credentialType"),
        ({"port": 0}, "port"),
        ({"port": 70_000}, "port"),
        ({"port": "many"}, "port"),
        ({"isGlobal": "yes"}, "isGlobal"),
        ({"credentials": "secret"}, "credentials"),
    ],
)
async def test_a_bad_connection_names_its_field(
    workspace: Workspace, change: dict[str, Any], field: str
) -> None:
    """A missing or wrong field is 400 and named, and nothing is made."""
    before = len(workspace.world.connections)

    answer = await workspace.post("/v4/connections", {**BODY, **change})

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')
    assert len(workspace.world.connections) == before


async def test_a_used_connection_stays(workspace: Workspace) -> None:
    """A dataset or a publication that names a connection holds it; without them it goes."""
    made = await make(workspace)
    dataset = workspace.world.create(
        ImportedDataset,
        by=workspace.things.owner.id,
        name="orders",
        connection_id=made["id"],
        table_path=("public", "orders"),
    )
    publishing = workspace.world.publications.get(4501)
    assert publishing is not None

    refused = await workspace.request("DELETE", f"/v4/connections/{made['id']}")
    published = await workspace.request("DELETE", f"/v4/connections/{publishing.connection_id}")

    assert refused.is_refused(400, "ValidationFailed", f"importedDataset {dataset.id}")
    assert published.is_refused(400, "ValidationFailed", "publication")
    workspace.world.delete(dataset)
    assert (await workspace.request("DELETE", f"/v4/connections/{made['id']}")).status == 204


async def test_a_bucket_is_one_of_the_parameters(workspace: Workspace) -> None:
    """Where files lie is kept beside the other parameters of a remote file system."""
    made = await make(workspace, type="remotefile", bucket="drop", params={"root": "/"})
    assert made["params"] == {"root": "/", "bucket": "drop"}


async def test_a_fault_takes_connections_down(workspace: Workspace) -> None:
    """The status is SUCCESS, or FAILED for those that the fault has struck; they stay struck."""
    ids = [(await make(workspace))["id"] for _ in range(20)]

    async def results() -> list[str]:
        answers = [await workspace.get(f"/v4/connections/{id_}/status") for id_ in ids]
        return [answer.body["result"] for answer in answers]

    assert set(await results()) == {"SUCCESS"}
    workspace.world.options.connections_down = 0.5
    struck = await results()
    assert set(struck) == {"SUCCESS", "FAILED"}
    assert struck == await results()
    assert isinstance(workspace.world.connections.get(ids[0]), Connection)
