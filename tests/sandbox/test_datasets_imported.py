"""Tests of imported datasets: the forms of data, changes, copies, links to flows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.sandbox.world.lineage import inputs_of
from monitor.sandbox.world.records.objects import Connection, ImportedDataset
from monitor.sandbox.world.records.parts import DatasetNode
from tests.sandbox.http_workspace import COLLEAGUE_TOKEN, Workspace, open_workspace

DATASETS = "/v4/importedDatasets"


def parameter(key: str, *, index: int, of: str = "path") -> dict[str, Any]:
    """Return a run parameter that puts ``eu`` into a text unless a run overrides it."""
    return {
        "type": of,
        "overrideKey": key,
        "insertionIndices": [{"index": index, "order": 0}],
        "value": {"variable": {"value": "eu"}},
    }


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as found:
        yield found


@pytest.fixture
def connection(workspace: Workspace) -> Connection:
    return next(workspace.world.connections.live())


async def make(workspace: Workspace, **body: Any) -> dict[str, Any]:
    """Make a dataset in the owner's name."""
    answer = await workspace.post(DATASETS, {"name": "made", **body})
    assert answer.status == 201, answer.content
    found: dict[str, Any] = answer.body
    return found


async def test_a_file_is_shown_by_its_address(workspace: Workspace) -> None:
    """The body that Airflow's hook sends makes a file; reading it gives the same again."""
    made = await make(workspace, uri="gs://in/folder/sales.csv", name="sales")

    assert made["name"] == "sales"
    assert made["type"] == "gs"
    assert made["storageLocation"] == {
        "fullUri": "gs://in/folder/sales.csv",
        "type": "gs",
        "container": "in",
        "path": "/folder/sales.csv",
    }
    assert made["relationalSource"] is None
    assert made["runParameters"] == {"data": []}
    assert (await workspace.get(f"{DATASETS}/{made['id']}")).body == made


@pytest.mark.parametrize(
    ("body", "path", "table", "query"),
    [
        ({"jdbcTable": "t", "jdbcPath": ["db", "public"]}, ["db", "public"], "t", None),
        ({"tableName": "t", "relationalPath": ["public"]}, ["public"], "t", None),
        ({"tableName": "t"}, None, "t", None),
        ({"raw": ["select 1", "select 2"]}, None, None, ["select 1", "select 2"]),
        ({"query": "select 1"}, None, None, ["select 1"]),
    ],
)
async def test_tables_and_queries_are_of_a_connection(
    workspace: Workspace,
    connection: Connection,
    body: dict[str, Any],
    path: list[str] | None,
    table: str | None,
    query: list[str] | None,
) -> None:
    """Every published spelling of a table or query is understood, and needs a connection."""
    made = await make(workspace, connectionId=str(connection.id), **body)
    refused = await workspace.post(DATASETS, {"name": "made", **body})

    assert made["connection"] == {"id": connection.id}
    assert (made["type"], made["jdbcPath"], made["jdbcTable"]) == ("jdbc", path, table)
    assert made["raw"] == query
    assert made["isSchematized"] is True
    assert refused.is_refused(400, "ValidationFailed", '"connectionId" is required')


@pytest.mark.parametrize(
    ("body", "uri"),
    [
        ({"path": "/a/b.csv", "bucket": "drop", "type": "s3"}, "s3://drop/a/b.csv"),
        ({"path": "a/b.csv"}, "file:///a/b.csv"),
        ({"dynamicPath": "gs://in/*.csv", "isDynamic": True}, "gs://in/*.csv"),
    ],
)
async def test_a_path_becomes_an_address(
    workspace: Workspace, body: dict[str, Any], uri: str
) -> None:
    """A path with a bucket, one alone, and one with parameters are files too."""
    assert (await make(workspace, **body))["uri"] == uri


async def test_a_path_on_a_connection_is_a_file_there(
    workspace: Workspace, connection: Connection
) -> None:
    """Files of a remote file system have its connection and an address."""
    made = await make(workspace, connectionId=connection.id, path="/drop/a.csv")
    assert made["uri"] == f"postgres://{connection.host}/drop/a.csv"
    assert made["connection"] == {"id": connection.id}


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (None, "body"),
        ([], "body"),
        ({"uri": "gs://in/x"}, '"name" is required'),
        ({"name": "x"}, '"uri" is required'),
        ({"name": "x", "uri": 7}, '"uri"'),
        ({"name": "x", "uri": "http://[::x"}, '"uri"'),
        ({"name": "x", "connectionId": 999_999, "tableName": "t"}, '"connectionId"'),
        ({"name": "x", "connectionId": 21}, '"jdbcTable" is required'),
        ({"name": "x", "uri": "a", "jdbcPath": "public"}, '"jdbcPath"'),
        ({"name": "x", "uri": "a", "runParameters": [{"type": "moon"}]}, "runParameters[0]"),
        ({"name": "x", "uri": "a", "isDynamic": "no"}, '"isDynamic"'),
        ({"name": "x", "uri": "a", "runParameters": [parameter("r", index=-1)]}, ".index"),
    ],
)
async def test_a_bad_dataset_names_its_field(
    workspace: Workspace, body: object, named: str
) -> None:
    """A missing, unknown or wrong field is 400 and named; nothing is made."""
    before = len(workspace.world.imported_datasets)
    answer = await workspace.post(DATASETS, body)
    assert answer.is_refused(400, "ValidationFailed", named)
    assert len(workspace.world.imported_datasets) == before


async def test_changes_answer_the_whole_dataset(
    workspace: Workspace, connection: Connection
) -> None:
    """PATCH renames, PUT also moves the data; both keep what was not sent."""
    file = await make(workspace, uri="gs://in/a.csv", description="first")
    table = await make(
        workspace, connectionId=connection.id, jdbcTable="t", jdbcPath=["db", "public"]
    )
    path = f"{DATASETS}/{file['id']}"

    patched = await workspace.request("PATCH", path, body={"name": "b", "path": "/never"})
    moved = await workspace.request("PUT", path, body={"path": "c/d.csv", "id": file["id"]})
    other = await workspace.request("PUT", f"{DATASETS}/{table['id']}", body={"tableName": "u"})
    queried = await workspace.request("PUT", f"{DATASETS}/{table['id']}", body={"raw": "select 1"})

    assert patched.body == {**file, "name": "b"}
    assert moved.body["uri"] == "gs://in/c/d.csv"
    assert moved.body["description"] == "first"
    assert (other.body["jdbcPath"], other.body["jdbcTable"]) == (["db", "public"], "u")
    assert (queried.body["raw"], queried.body["jdbcTable"]) == (["select 1"], None)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"id": 7}, '"id"'),
        ({"tableName": "t"}, '"tableName"'),
        ({"raw": "select 1"}, '"raw"'),
        ({"name": None}, '"name"'),
        ({"runParameters": {}}, '"runParameters"'),
    ],
)
async def test_a_bad_change_names_its_field(
    workspace: Workspace, body: dict[str, Any], named: str
) -> None:
    """A file does not become a table, nor one dataset another; nothing changes."""
    made = await make(workspace, uri="gs://in/a.csv")
    path = f"{DATASETS}/{made['id']}"
    answer = await workspace.request("PUT", path, body=body)
    assert answer.is_refused(400, "ValidationFailed", named)
    assert (await workspace.get(path)).body == made


async def test_only_its_owner_changes_a_dataset(workspace: Workspace) -> None:
    """A colleague may read it by its id, but not change, refresh or delete it."""
    path = f"{DATASETS}/{(await make(workspace, uri='gs://in/a.csv'))['id']}"
    read = await workspace.request("GET", path, token=COLLEAGUE_TOKEN)
    assert read.status == 200
    for method, suffix in (("PATCH", ""), ("DELETE", ""), ("POST", "/asyncRefreshSchema")):
        body = {"name": "mine"} if method == "PATCH" else None
        answer = await workspace.request(method, path + suffix, token=COLLEAGUE_TOKEN, body=body)
        assert answer.is_refused(403, "AccessControlException", "importedDataset")


async def test_a_dataset_in_a_flow_is_among_its_inputs(workspace: Workspace) -> None:
    """Adding it twice gives one place, which goes with the dataset."""
    things = workspace.things
    dataset_id = (await make(workspace, uri="gs://in/a.csv"))["id"]
    path, body = f"{DATASETS}/{dataset_id}/addToFlow", {"flow": {"id": things.orders.id}}

    first = await workspace.post(path, body)
    second = await workspace.post(path, body)

    assert first.status == second.status == 201
    assert first.body == second.body
    assert first.body["flow"] == {"id": things.orders.id}
    assert first.body["wrangled"] is False
    assert dataset_id in {input_.id for input_ in inputs_of(workspace.world, things.orders.id)}
    assert (await workspace.request("DELETE", f"{DATASETS}/{dataset_id}")).status == 204
    assert list(workspace.world.shelf(DatasetNode).live()) == []


async def test_datasets_go_only_into_ones_own_flows(workspace: Workspace) -> None:
    """An unknown flow is 400 and named, and so is one that the caller does not see."""
    dataset_id = (await make(workspace, uri="gs://in/a.csv"))["id"]
    path = f"{DATASETS}/{dataset_id}/addToFlow"
    for body in ({}, {"flow": {"id": 999_999}}, {"flow": {"id": workspace.things.stock.id}}):
        answer = await workspace.post(path, body)
        assert answer.is_refused(400, "ValidationFailed", "flow"), answer.content


async def test_a_copy_is_the_callers_own(workspace: Workspace) -> None:
    """A copy has the same data, its own id and name, and outlives the original."""
    made = await make(workspace, uri="gs://in/a.csv", description="first")
    path = f"{DATASETS}/{made['id']}"

    named = await workspace.request(
        "POST", f"{path}/copy", body={"name": "b"}, token=COLLEAGUE_TOKEN
    )
    unnamed = await workspace.post(f"{path}/copy")
    await workspace.request("DELETE", path)

    assert named.status == unnamed.status == 201
    assert named.body["creator"] == {"id": workspace.things.colleague.id}
    assert named.body["storageLocation"] == made["storageLocation"]
    copies = [await workspace.get(f"{DATASETS}/{item.body['id']}") for item in (named, unnamed)]
    assert [copy.body["name"] for copy in copies] == ["b", "Copy of made"]


async def test_a_refreshed_schema_starts_no_run(workspace: Workspace) -> None:
    """The answer is the id of a task, a new one each time; the dataset shows the later date."""
    made = await make(workspace, uri="gs://in/a.csv")
    path = f"{DATASETS}/{made['id']}"
    await workspace.clock.advance(60)

    answers = [await workspace.post(f"{path}/asyncRefreshSchema", {}) for _ in range(2)]

    assert [answer.status for answer in answers] == [200, 200]
    assert len({answer.body["resourceTaskStateId"] for answer in answers}) == 2
    assert (await workspace.get(path)).body["updatedAt"] > made["updatedAt"]
    assert len(workspace.world.job_groups) == 0


async def test_a_read_dataset_stays(workspace: Workspace) -> None:
    """A recipe holds what it reads; when its flow is gone, so is the hold."""
    dataset = next(workspace.world.imported_datasets.live())
    path = f"{DATASETS}/{dataset.id}"
    refused = await workspace.request("DELETE", path)
    assert refused.is_refused(400, "ValidationFailed", "wrangledDataset 1201")
    workspace.world.delete(workspace.things.clean)
    assert (await workspace.request("DELETE", path)).status == 204
    assert isinstance(dataset, ImportedDataset)


async def test_those_with_access_are_shown_on_demand(workspace: Workspace) -> None:
    """The owner comes first, then people who see a flow that reads it."""
    things = workspace.things
    workspace.world.update(things.orders, shared_with=frozenset({things.colleague.id}))
    path = f"{DATASETS}/{next(workspace.world.imported_datasets.live()).id}"

    plain = await workspace.get(path)
    answer = await workspace.get(path, includeAssociatedSubjects="true")

    assert "associatedSubjects" not in plain.body
    assert [
        (associatedsubject["subjectId"], associatedsubject["role"])
        for associatedsubject in answer.body["associatedSubjects"]
    ] == [
        (things.owner.id, "owner"),
        (things.colleague.id, "readOnly"),
    ]


async def test_making_datasets_has_a_quota(workspace: Workspace) -> None:
    """The forty-first request of a minute is 429, as the catalogue states."""
    answers = [
        await workspace.post(DATASETS, {"name": f"{n}", "uri": "gs://in/a.csv"}) for n in range(41)
    ]
    assert {answer.status for answer in answers[:40]} == {201}
    assert answers[40].status == 429


@pytest.mark.parametrize(
    ("body", "usual", "overridden"),
    [
        ({"uri": "gs://in/.csv"}, "gs://in/eu.csv", "gs://in/us.csv"),
        (
            {"uri": "gs://in/a.csv", "dynamicPath": "/x/.csv", "isDynamic": True},
            "gs://in/x/eu.csv",
            "gs://in/x/us.csv",
        ),
    ],
)
async def test_a_run_shows_which_file_it_reads(
    workspace: Workspace, body: dict[str, Any], usual: str, overridden: str
) -> None:
    """The value of a dataset's parameter is its own, or the one that the run gives."""
    index = (body.get("dynamicPath") or body["uri"]).index(".csv")
    made = await make(workspace, **body, runParameters=[parameter("region", index=index)])
    workspace.world.update(workspace.things.clean, dataset_ids=(made["id"],))
    recipe = {"wrangledDataset": {"id": workspace.things.clean.id}}
    overrides = {"overrides": {"data": [{"key": "region", "value": "us"}]}}

    runs = [
        await workspace.post("/v4/jobGroups", {**recipe, **more})
        for more in ({}, {"runParameters": overrides})
    ]

    inputs = [await workspace.get(f"/v4/jobGroups/{run.body['id']}/inputs") for run in runs]
    assert [run.body["data"][0]["inputs"][0]["uri"] for run in inputs] == [usual, overridden]
    assert made["runParameters"]["data"][0]["overrideKey"] == "region"


async def test_a_run_shows_which_query_it_sends(
    workspace: Workspace, connection: Connection
) -> None:
    """Parameters stand in queries as well."""
    query = "select * from "
    made = await make(
        workspace,
        connectionId=connection.id,
        query=query,
        runParameters=[parameter("table", index=len(query), of="sql")],
    )
    workspace.world.update(workspace.things.clean, dataset_ids=(made["id"],))
    run = workspace.job_group()
    answer = await workspace.get(f"/v4/jobGroups/{run.id}/inputs")
    assert answer.body["data"][0]["inputs"][0]["query"] == ["select * from eu"]
