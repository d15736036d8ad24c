"""Flow packages that other workspaces wrote: read in both formats, and written in the newer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from monitor.sandbox.world.records.objects import Flow, ImportedDataset
from monitor.sandbox.world.records.parts import FlowRunParameterOverride
from tests.sandbox.http_workspace import Answer, Workspace, open_workspace
from tests.sandbox.packages import (
    changed,
    document_of,
    fetch,
    fingerprint,
    meaning,
    pages_of,
    send,
    zipped,
)
from tests.sandbox.vendor_packages import archived, newer, older

IMPORT = "/v4/flows/package"
DRY_RUN = "/v4/flows/package/dryRun"


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


async def imported(workspace: Workspace, content: bytes) -> tuple[Flow, Answer]:
    answer = await send(workspace, IMPORT, content)
    assert answer.status == 201, answer.content
    flow = workspace.world.flows.get(answer.body["primaryFlowIds"][0])
    assert flow is not None
    return flow, answer


@pytest.mark.parametrize("document", [newer(), older()], ids=["2020", "2019"])
async def test_both_formats_make_the_same_flow(workspace: Workspace, document: Any) -> None:
    """Nodes, edges, outputs, datasets and parameters have their places, whatever the format."""
    world = workspace.world

    flow, _ = await imported(workspace, archived(document))

    assert (flow.name, flow.description) == ("Orders / all", "from elsewhere")
    joined, upon = world.recipes_of(flow.id)
    assert (joined.name, upon.name, upon.upstream_ids) == ("Join", "Upon it", (joined.id,))
    orders, prices = (world.imported_datasets.get(key) for key in joined.dataset_ids)
    assert isinstance(orders, ImportedDataset)
    assert isinstance(prices, ImportedDataset)
    assert (orders.name, orders.uri, prices.table_path) == (
        *("orders.csv", "gs://in/orders.csv"),
        ("public", "prices"),
    )
    assert [row["overrideKey"] for row in orders.run_parameters] == ["region"]
    connection = world.connections.get(prices.connection_id or 0)
    assert connection is not None
    assert (connection.name, connection.is_global) == ("warehouse", False)
    (output,) = world.outputs_of(joined.id)
    (setting,) = world.write_settings_of(output.id)
    (publication,) = world.publications_of(output.id)
    assert (setting.suffix, publication.connection_id) == ("_increment", connection.id)
    (task,) = world.webhook_tasks_of(flow.id)
    assert task.flow_node_ids == (joined.id,)
    (override,) = world.shelf(FlowRunParameterOverride).live()
    assert (override.flow_id, override.override_key) == (flow.id, "region")


async def test_an_imported_flow_runs(workspace: Workspace) -> None:
    """A run of it writes where the package says, with the value that the package gives."""
    flow, _ = await imported(workspace, archived(newer()))

    answer = await workspace.request("POST", f"/v4/flows/{flow.id}/run", body={})

    assert answer.status == 201, answer.content
    groups = [workspace.world.job_groups.get(row["id"]) for row in answer.body["data"]]
    assert [group.parameters for group in groups if group] == [
        {"region": {"variable": {"value": "south"}}}
    ]
    assert groups[0] is not None
    assert groups[0].destinations.write_settings[0].path == "gs://out/orders.csv"


async def test_fields_without_a_place_are_kept_and_named(workspace: Workspace) -> None:
    """Steps, notes, artifacts and files come back on export; the answer names what is only kept."""
    content = archived(newer(), files={"artifact_96.data": b"\0\1"})

    flow, answer = await imported(workspace, content)
    out = await fetch(workspace, f"/v4/flows/{flow.id}/package")

    assert answer.body["kept"] == {
        "datasetnodes": ["recipe"],
        "flows": ["files", "notes", "package"],
        "importeddatasets": ["relationalsource", "storageLocation"],
        "outputobjects": ["outputobjectdataflowoptions"],
        "wrangleddatasets": ["flownode", "nextPortId", "steps"],
    }
    pages = pages_of(out)
    assert pages.pop("artifact_96.data") == b"\0\1"
    document = json.loads(pages["flow_Orders _ all.json"])
    (shown,) = document["data"]["flows"]
    assert document["data"]["artifacts"] == [{"id": 96, "type": "targetmapping"}]
    assert shown["notes"] == [{"id": 95, "content": "read me"}]
    steps = {recipe["name"]: len(recipe["steps"]) for recipe in shown["recipes"]}
    assert steps == {"orders.csv": 1, "prices": 0, "Join": 1, "Upon it": 0}
    assert [node["referenceId"] for node in shown["flownodes"]] == [92, None, None, None]
    (source, table) = shown["datasources"]
    assert source["storageLocation"] == {"id": 71, "size": 219}
    assert table["relationalsource"]["columns"] == ["a"]


async def test_an_export_has_the_vendors_form(workspace: Workspace) -> None:
    """Every node, edge and output is as the vendor writes it; the primary input has no port."""
    flow, _ = await imported(workspace, archived(newer()))
    document = document_of(await fetch(workspace, f"/v4/flows/{flow.id}/package"))

    (shown,) = document["data"]["flows"]
    nodes = {node["id"]: node for node in shown["flownodes"]}
    scripts = {recipe["id"]: recipe["name"] for recipe in shown["recipes"]}
    named = {node_id: scripts[node["scriptId"]] for node_id, node in nodes.items()}
    assert [
        (named[edge["inFlowNodeId"]], named[edge["outFlowNodeId"]], edge["outPortId"])
        for edge in shown["flowedges"]
    ] == [("orders.csv", "Join", None), ("prices", "Join", 2), ("Join", "Upon it", None)]
    assert {named[key]: node["wrangled"] for key, node in nodes.items()} == {
        "Join": True,
        "Upon it": True,
        "orders.csv": False,
        "prices": False,
    }
    orders, prices = shown["datasources"]
    assert [orders[key] for key in ("type", "bucket", "path")] == ["gs", "in", "/orders.csv"]
    assert scripts[orders["parsingScriptId"]] == "orders.csv"
    assert prices["relationalsource"]["tableName"] == "prices"
    (output,) = shown["outputobjects"]
    assert named[output["flowNodeId"]] == "Join"
    assert output["writesettings"][0]["suffix"] == "_increment"
    (edit,) = (row["runParameterEdit"] for row in orders["runParameters"])
    assert edit["overrideKey"] == "region"
    (task,) = shown["webhookflowtasks"]
    assert [named[node["id"]] for node in task["flownodes"]] == ["Join"]


@pytest.mark.parametrize("document", [newer(), older()], ids=["2020", "2019"])
async def test_out_and_in_again_is_the_same(workspace: Workspace, document: Any) -> None:
    """Imported, exported and imported into another workspace, it is the same flow."""
    flow, _ = await imported(workspace, archived(document))
    out = await fetch(workspace, f"/v4/flows/{flow.id}/package")
    async with open_workspace() as other:
        again, _ = await imported(other, out)
        back = await fetch(other, f"/v4/flows/{again.id}/package")

    assert meaning(back) == meaning(out)


async def test_the_former_format_is_still_read(workspace: Workspace) -> None:
    """A package of tables, as this workspace wrote it before, makes the same flow."""
    flow, _ = await imported(workspace, archived(newer()))
    out = await fetch(workspace, f"/v4/flows/{flow.id}/package")

    again, _ = await imported(workspace, changed(out))

    assert meaning(await fetch(workspace, f"/v4/flows/{again.id}/package")) == meaning(out)


async def test_json5_is_read(workspace: Workspace) -> None:
    """Bare keys, single quotes, comments, trailing commas and other numbers are JSON5."""
    text = json.dumps(newer(name="it's", description="a\u2028b"))
    text = text.replace('"name": "it\'s"', "name: 'it\\'s', /* a */ failureRatio: +.5").replace(
        "]", ",] // end\n"
    )
    text = text.replace("[,]", "[]").replace("[ ,]", "[]")

    flow, _ = await imported(workspace, zipped({"flow_x.json5": text.encode()}))

    assert (flow.name, flow.failure_ratio, flow.description) == ("it's", 0.5, "a\u2028b")


def wrong(path: str, value: Any) -> Any:
    """Return a document with another value at a path, such as ``data.flows.0.name``."""
    document = newer()
    *names, last = path.split(".")
    place = document
    for name in names:
        place = place[int(name)] if isinstance(place, list) else place[name]
    place[int(last) if isinstance(place, list) else last] = value
    return document


FLOW = "data.flows.0"


@pytest.mark.parametrize(
    ("document", "mentions"),
    [
        ([], "flow_Orders.json"),
        ({}, "metadata"),
        (wrong("type", "plan"), "kind plan"),
        (wrong("metadata", None), "metadata"),
        (wrong("metadata.primaryFlowIds", [8]), "flows 8"),
        (wrong("metadata.primaryFlowIds", []), "does not name its flows"),
        (wrong("data", []), "data"),
        (wrong("data.flows", {}), "data.flows"),
        (wrong(f"{FLOW}.id", 10**30), "data.flows[0].id"),
        (wrong(f"{FLOW}.name", 5), "data.flows[0].name"),
        (wrong(f"{FLOW}.flownodes.1.id", "x"), "data.flows[0].flownodes[1].id"),
        (wrong(f"{FLOW}.flownodes.2.scriptId", 99), "data.flows[0].flownodes[2]"),
        (wrong(f"{FLOW}.flownodes.0.scriptId", 99), "data.flows[0].flownodes[0]"),
        (wrong(f"{FLOW}.flownodes.3", {"id": 14, "flowNodeId": 99}), "takes no input"),
        (wrong(f"{FLOW}.flowedges.0.inFlowNodeId", 99), "data.flows[0].flowedges[0]"),
        (wrong(f"{FLOW}.flowedges.1.outFlowNodeId", 12), "data.flows[0].flowedges[1]"),
        (wrong(f"{FLOW}.flowedges.1.inFlowNodeId", 14), "circle"),
        (wrong(f"{FLOW}.datasources.0.parsingScriptId", None), "datasources[0].parsingScriptId"),
        (wrong(f"{FLOW}.datasources.1.connectionId", 5), "connection_id 5"),
        (wrong(f"{FLOW}.outputobjects.0.flowNodeId", 11), "outputObject 41"),
        (wrong(f"{FLOW}.outputobjects.0.writesettings", 5), "outputobjects[0].writesettings"),
        (wrong(f"{FLOW}.outputobjects.0.writesettings.0.format", "docx"), "format"),
        (wrong(f"{FLOW}.outputobjects.0.writesettings.0.path", 5), "writeSetting 51"),
        (wrong(f"{FLOW}.webhookflowtasks.0.flownodes", [{"id": 99}]), "webhookFlowTask 55"),
        (wrong("data.connections.0.uuid", None), "connection 81"),
        (wrong(f"{FLOW}.notes", 2**70), "cannot be kept"),
        (wrong(f"{FLOW}.datasources.0.bucket", "["), "importedDataset"),
        ({"metadata": newer()["metadata"], "data": {"flownodes": [5]}}, "flownodes"),
        ({"metadata": newer()["metadata"], "data": {"flownodes": [{"flowId": []}]}}, "flowId"),
    ],
)
async def test_the_place_of_a_fault_is_named(
    workspace: Workspace, document: Any, mentions: str
) -> None:
    """A fault is one 400 that names ``data`` and the place, and nothing of it stays."""
    await workspace.get("/v4/flows")  # a token shows when it was used
    before = fingerprint(workspace.world)

    for path in (IMPORT, DRY_RUN):
        answer = await send(workspace, path, archived(document))
        assert answer.is_refused(400, "ValidationFailed", '"data"', mentions), answer.content

    assert fingerprint(workspace.world) == before


@pytest.mark.parametrize(
    ("make", "mentions"),
    [
        (lambda: zipped({"flow_x.json": b"{" * 5_000}), "flow_x.json"),
        (lambda: zipped({"flow_x.json5": b"{a: 'b"}), "byte 4"),
        (lambda: zipped({"flow_x.json5": b"{a: 0x}"}), "flow_x.json5"),
        (lambda: zipped({"flow_x.json5": b" " * (9 * 1024 * 1024)}), "bytes"),
        (lambda: zipped({"flow_x.json": bytes(70 * 1024 * 1024)}), "unpacked"),
        (lambda: zipped({str(number): b"" for number in range(10_000)}), "1000 files"),
        (lambda: zipped({"flow_x.json": b"{}", "flow_y.json": b"{}"}), "one document"),
        (lambda: zipped({"flow_x.json": b'{"data":[' + b"[]," * 1_000_001 + b"[]]}"}), "values"),
        (
            lambda: archived(
                newer(
                    flowedges=[], flownodes=[{"id": n, "flowNodeId": 9} for n in range(1, 20_002)]
                )
            ),
            "20000 records",
        ),
    ],
)
async def test_too_much_is_refused(
    workspace: Workspace, make: Callable[[], bytes], mentions: str
) -> None:
    """Bombs, crowds of files and rows, and what is no document are refused before they cost."""
    answer = await send(workspace, IMPORT, make())

    assert answer.is_refused(400, "ValidationFailed", '"data"', mentions), answer.content
