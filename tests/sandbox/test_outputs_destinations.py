"""Output objects, and what hangs on them: write settings, publications and SQL scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.sandbox.world.records.objects import (
    Connection,
    OutputObject,
    Publication,
    Record,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import SqlScript
from tests.sandbox.http_workspace import COLLEAGUE_TOKEN, Workspace, open_workspace

FILE = {"path": "gs://out/x.csv", "action": "create", "format": "csv"}
TABLE = {"path": ["public"], "tableName": "x", "targetType": "postgres", "action": "upsert"}
SCRIPT = {"sqlScript": "select 1", "type": "post", "vendor": "postgres"}
# Path -> a body for it, the kind of record, a change, and what the change shows.
DESTINATIONS: list[tuple[str, dict[str, Any], type[Record], dict[str, Any]]] = [
    ("writeSettings", FILE, WriteSetting, {"format": "json", "compression": "gzip"}),
    ("publications", TABLE, Publication, {"tableName": "y", "parameters": {"k": {"of": 1}}}),
    ("sqlScripts", SCRIPT, SqlScript, {"sqlScript": "select 2", "type": "pre"}),
]
INDEX = "runParameters[0].insertionIndices[0].index"


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


def output_of(workspace: Workspace) -> OutputObject:
    return workspace.world.outputs_of(workspace.things.clean.id)[0]


@pytest.mark.parametrize(("path", "body", "kind", "change"), DESTINATIONS)
async def test_a_destination_lives_and_dies(
    workspace: Workspace,
    path: str,
    body: dict[str, Any],
    kind: type[Record],
    change: dict[str, Any],
) -> None:
    """A new destination is read, listed, counted, changed and deleted, and then 404."""
    before = (await workspace.get(f"/v4/{path}/count")).body["count"]
    made = await workspace.post(f"/v4/{path}", {**body, "outputObjectId": output_of(workspace).id})
    assert made.status == 201
    one = f"/v4/{path}/{made.body['id']}"
    assert {name: made.body[name] for name in body} == body

    changed = await workspace.request("PATCH", one, body=change)
    assert changed.body.keys() == {"id", "updater", "createdAt", "updatedAt"}
    read = (await workspace.get(one)).body
    assert {name: read[name] for name in body} == {
        **body,
        **{k: change.get(k, body[k]) for k in body},
    }
    assert {name: read[name] for name in change} == change
    assert made.body["id"] in (await workspace.get(f"/v4/{path}")).ids
    assert (await workspace.get(f"/v4/{path}/count")).body["count"] == before + 1

    assert (await workspace.request("DELETE", one)).status == 204
    assert (await workspace.get(one)).is_refused(404, "DataNotFoundException")
    assert (await workspace.get(f"/v4/{path}/count")).body["count"] == before
    assert workspace.world.shelf(kind).get(made.body["id"]) is None


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("writeSettings", {"path": None}, "path"),
        ("writeSettings", {"format": "xml"}, "format"),
        ("writeSettings", {"action": "upsert"}, "action"),
        ("writeSettings", {"header": "yes"}, "header"),
        ("writeSettings", {"outputObjectId": None}, "outputObjectId"),
        ("writeSettings", {"outputObjectId": 999_999}, "outputObjectId"),
        ("writeSettings", {"connectionId": "999999"}, "connectionId"),
        (
            "writeSettings",
            {"runParameters": [{"insertionIndices": [{"index": "two"}], "value": "x"}]},
            INDEX,
        ),
        (
            "writeSettings",
            {"runParameters": [{"insertionIndices": [{}] * 101, "value": "x"}]},
            "runParameters[0].insertionIndices",
        ),
        ("publications", {"tableName": 7}, "tableName"),
        ("publications", {"path": "public"}, "path"),
        ("publications", {"connectionId": 999_999}, "connectionId"),
        ("publications", {"outputObjectId": None}, "outputObjectId"),
        ("sqlScripts", {"vendor": None}, "vendor"),
        ("sqlScripts", {"outputObjectId": None}, "outputObjectId"),
        ("sqlScripts", {"connectionId": 999_999}, "connectionId"),
    ],
)
async def test_a_bad_destination_names_its_field(
    workspace: Workspace, path: str, body: dict[str, Any], field: str
) -> None:
    """A destination that cannot be made is 400 with the field, and makes nothing."""
    good = next(destination for name, destination, _, _ in DESTINATIONS if name == path)
    before = (await workspace.get(f"/v4/{path}/count")).body

    answer = await workspace.post(
        f"/v4/{path}", {**good, "outputObjectId": output_of(workspace).id, **body}
    )

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')
    assert (await workspace.get(f"/v4/{path}/count")).body == before


async def test_an_output_comes_with_its_destinations(workspace: Workspace) -> None:
    """One request makes an output with files, tables and SQL; embeds show them."""
    made = await workspace.post(
        "/v4/outputObjects",
        {
            "execution": "dataflow",
            "profiler": False,
            "flowNodeId": workspace.things.totals.id,
            "writeSettings": [FILE, FILE],
            "publications": [TABLE],
            "sqlScripts": [SCRIPT],
        },
    )

    assert made.status == 201
    assert made.body["flownode"] == made.body["flowNode"] == {"id": workspace.things.totals.id}
    shown = await workspace.get(
        f"/v4/outputObjects/{made.body['id']}",
        embed="writeSettings,publications(fields=tableName),sqlScripts,flowNode.flow",
    )
    assert [writesetting["path"] for writesetting in shown.body["writeSettings"]["data"]] == [
        FILE["path"]
    ] * 2
    assert shown.body["publications"]["data"] == [{"tableName": "x"}]
    assert [sqlscript["sqlScript"] for sqlscript in shown.body["sqlScripts"]["data"]] == [
        "select 1"
    ]
    assert shown.body["flowNode"]["flow"]["name"] == "Orders"
    assert shown.body["flownode"] == shown.body["flowNode"]


async def test_links_may_be_sent_as_they_are_shown(workspace: Workspace) -> None:
    """Older clients name what an output belongs to by an object with its id."""
    recipe_id = workspace.things.clean.id
    output = await workspace.post(
        "/v4/outputObjects",
        {"execution": "photon", "profiler": True, "flownode": {"id": recipe_id}},
    )
    assert output.body["flowNode"] == {"id": recipe_id}
    link = {"id": output.body["id"]}

    file = await workspace.post("/v4/writeSettings", {**FILE, "outputObject": link})
    table = await workspace.post("/v4/publications", {**TABLE, "outputobject": link})

    assert (file.status, table.status) == (201, 201)
    assert file.body["outputObject"] == table.body["outputobject"] == link


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"writeSettings": [FILE, {**FILE, "path": None}]}, "writeSettings[1].path"),
        ({"writeSettings": [7]}, "writeSettings[0]"),
        ({"writeSettings": FILE}, "writeSettings"),
        ({"publications": [{**TABLE, "connectionId": 999_999}]}, "publications[0].connectionId"),
        ({"sqlScripts": [{}]}, "sqlScripts[0].sqlScript"),
        ({"flowNodeId": 999_999}, "flowNodeId"),
        ({"flowNodeId": None}, "flowNodeId"),
        ({"execution": "spark"}, "execution"),
        ({"profiler": None}, "profiler"),
    ],
)
async def test_an_output_is_made_whole_or_not_at_all(
    workspace: Workspace, part: dict[str, Any], field: str
) -> None:
    """A fault anywhere in the body is 400 and makes nothing."""
    world = workspace.world
    before = [len(world.shelf(kind)) for kind in (OutputObject, WriteSetting, Publication)]
    body = {"execution": "photon", "profiler": True, "flowNodeId": workspace.things.clean.id}

    answer = await workspace.post("/v4/outputObjects", {**body, "writeSettings": [FILE], **part})

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')
    assert [len(world.shelf(kind)) for kind in (OutputObject, WriteSetting, Publication)] == before


async def test_a_patch_replaces_what_it_lists(workspace: Workspace) -> None:
    """A list in a patch replaces the former one; fields that are not named stay."""
    output = output_of(workspace)
    world = workspace.world

    changed = await workspace.request(
        "PATCH",
        f"/v4/outputObjects/{output.id}",
        body={"name": "for sales", "writeSettings": [{**FILE, "path": "gs://out/new.csv"}]},
    )

    assert changed.body.keys() == {"id", "updater", "createdAt", "updatedAt"}
    assert output.name == "for sales"
    assert [write_setting.path for write_setting in world.write_settings_of(output.id)] == [
        "gs://out/new.csv"
    ]
    assert len(world.publications_of(output.id)) == 1
    assert (
        await workspace.request(
            "PATCH", f"/v4/outputObjects/{output.id}", body={"publications": []}
        )
    ).status == 200
    assert world.publications_of(output.id) == []


async def test_destinations_go_with_their_output(workspace: Workspace) -> None:
    """Deleting an output deletes its destinations, so that counts agree."""
    output = output_of(workspace)
    count = "/v4/writeSettings/count"
    before = (await workspace.get(count)).body["count"]

    assert (await workspace.request("DELETE", f"/v4/outputObjects/{output.id}")).status == 204

    assert (await workspace.get(count)).body["count"] == before - 1
    assert output.id not in (await workspace.get("/v4/outputObjects")).ids


async def test_a_connection_in_use_stays(workspace: Workspace) -> None:
    """A connection that a publication loads into cannot be deleted; the refusal says why."""
    connection = next(workspace.world.shelf(Connection).live())

    answer = await workspace.request("DELETE", f"/v4/connections/{connection.id}")

    assert answer.is_refused(400, "ValidationFailed", "publication")


async def test_outputs_belong_to_their_flow(workspace: Workspace) -> None:
    """Who does not see a flow lists none of its outputs and may not change them."""
    output = output_of(workspace)

    listed = await workspace.request("GET", "/v4/outputObjects", token=COLLEAGUE_TOKEN)
    refused = await workspace.request(
        "PATCH", f"/v4/outputObjects/{output.id}", body={"profiler": True}, token=COLLEAGUE_TOKEN
    )
    named = await workspace.request(
        "POST",
        "/v4/writeSettings",
        body={**FILE, "outputObjectId": output.id},
        token=COLLEAGUE_TOKEN,
    )

    assert output.id not in listed.ids
    assert refused.is_refused(403, "AccessControlException", str(output.id))
    assert named.is_refused(400, "ValidationFailed", '"outputObjectId"')
    workspace.things.orders.shared_with = frozenset({workspace.things.colleague.id})
    shared = await workspace.request("GET", "/v4/outputObjects", token=COLLEAGUE_TOKEN)
    assert output.id in shared.ids


async def test_inputs_of_an_output_lead_through_its_recipes(workspace: Workspace) -> None:
    """An output of a recipe that builds upon another is made of the other's datasets."""
    totals = workspace.world.outputs_of(workspace.things.totals.id)[0]

    answer = await workspace.get(f"/v4/outputObjects/{totals.id}/inputs")

    assert [item["name"] for item in answer.body["data"]] == ["orders.csv"]
