"""Flows as packages: nothing is lost on the way, and a dry run leaves no trace."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.sandbox.world.records.objects import (
    Connection,
    ImportedDataset,
    OutputObject,
    Recipe,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import Folder, UserDefinedFunction
from tests.sandbox.http_workspace import COLLEAGUE_TOKEN, Workspace, open_workspace
from tests.sandbox.packages import (
    changed,
    document_of,
    fetch,
    fingerprint,
    meaning,
    pages_of,
    send,
    tables_of,
)
from tests.sandbox.rich_flow import DRY_RUN, IMPORT, furnish, package_path


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    """Give a workspace whose first flow has one of everything."""
    async with open_workspace() as opened:
        furnish(opened)
        yield opened


async def test_a_package_is_a_zip_with_its_type(workspace: Workspace) -> None:
    """It is one document in the vendor's form of 2020; the same flow gives the same bytes."""
    content = await fetch(workspace, package_path(workspace), comment="for the others")

    document = document_of(content)
    assert list(pages_of(content)) == ["flow_Orders.json"]
    assert (document["type"], document["kind"]) == ("flow", "artifact")
    assert document["metadata"]["primaryFlowIds"] == [workspace.things.orders.id]
    assert document["metadata"]["comment"] == "for the others"
    assert document["data"].keys() >= {"artifacts", "connections", "flows"}
    assert [flow["name"] for flow in document["data"]["flows"]] == ["Orders", "Upstream"]
    assert len(document["hash"]) == 32
    assert content == await fetch(workspace, package_path(workspace), comment="for the others")


async def test_an_imported_flow_is_the_exported_one(workspace: Workspace) -> None:
    """Exported, imported and exported again, a flow is the same but for ids and dates."""
    out = await fetch(workspace, package_path(workspace))

    answer = await send(workspace, IMPORT, out)

    assert answer.status == 201, answer.content
    (flow_id,) = answer.body["primaryFlowIds"]
    assert flow_id != workspace.things.orders.id
    assert meaning(await fetch(workspace, f"/v4/flows/{flow_id}/package")) == meaning(out)
    tables = {name for name, rows in tables_of(out).items() if rows}
    assert tables >= {
        "flows",
        "wrangleddatasets",
        "outputobjects",
        "writesettings",
        "publications",
        "sqlscripts",
        "webhookflowtasks",
        "referencenodes",
        "datasetnodes",
        "importeddatasets",
        "connections",
        "userdefinedfunctions",
        "flowedges",
        "flowrunparameteroverrides",
        "flownotificationsettings",
    }


async def test_a_package_is_at_home_in_another_workspace(workspace: Workspace) -> None:
    """Where the same ids mean other things, nothing is mistaken for another."""
    out = await fetch(workspace, package_path(workspace))
    async with open_workspace() as other:
        world, me = other.world, other.things.owner.id
        world.create(Connection, by=me, name="other", uuid="o", vendor="v", vendor_name="V")
        for number in range(40):
            world.create(ImportedDataset, by=me, name=f"d{number}", connection_id=21)
            world.create(Recipe, by=me, flow_id=other.things.stock.id, name=f"r{number}")
        await other.get("/v4/flows")  # a token shows when it was used
        before = {line for line in fingerprint(world) if "(" in line}

        answer = await send(other, IMPORT, out)

        assert answer.status == 201, answer.content
        (flow_id,) = answer.body["primaryFlowIds"]
        again = await fetch(other, f"/v4/flows/{flow_id}/package")
        assert meaning_without_order(again) == meaning_without_order(out)
        assert before <= set(fingerprint(world))


def meaning_without_order(content: bytes) -> Any:
    """Leave out where in its table a shared thing stands: some were there before."""
    tables = meaning(content)
    return {
        name: sorted(re.sub(r"(datasets|connections)\[\d+\]", "", str(row)) for row in rows)
        for name, rows in tables.items()
    }


async def test_links_lead_to_the_new_things(workspace: Workspace) -> None:
    """Recipes, outputs and webhooks hang together as before, among themselves."""
    world, things = workspace.world, workspace.things
    out = await fetch(workspace, package_path(workspace))

    answer = await send(workspace, IMPORT, out)

    mapping = answer.body["createdObjectMapping"]
    flow_id = mapping["flows"][str(things.orders.id)]
    clean, totals = world.recipes_of(flow_id)
    assert clean.id == mapping["wrangleddatasets"][str(things.clean.id)]
    assert totals.upstream_ids == (clean.id,)
    assert world.outputs_of(clean.id)
    (task,) = world.webhook_tasks_of(flow_id)
    assert task.flow_node_ids == (totals.id,)
    assert (task.secret_key, task.headers) == ("s", {"x-key": "k"})
    flow = world.flows.get(flow_id)
    assert flow is not None
    assert (flow.creator_id, flow.shared_with) == (things.owner.id, frozenset())
    assert flow.created_at == world.now()
    # What flows of several people use is not made again.
    assert totals.dataset_ids == things.totals.dataset_ids
    assert totals.function_ids == things.totals.function_ids


async def test_a_dry_run_answers_the_same_and_leaves_no_trace(workspace: Workspace) -> None:
    """The world is untouched to the last counter; then the import answers what was promised."""
    out = await fetch(workspace, package_path(workspace))
    before = fingerprint(workspace.world)

    tried = await send(workspace, DRY_RUN, out)

    assert tried.status == 200, tried.content
    assert fingerprint(workspace.world) == before
    assert (await workspace.get(f"{package_path(workspace)}/dryRun")).status == 204
    assert fingerprint(workspace.world) == before
    done = await send(workspace, IMPORT, out)
    assert done.body == tried.body
    assert fingerprint(workspace.world) != before


async def test_a_stranger_gets_things_of_his_own(workspace: Workspace) -> None:
    """A thing that the importer cannot see is made again for him, without any credentials."""
    world = workspace.world
    out = await fetch(workspace, package_path(workspace))
    assert b"hidden away" not in b"".join(pages_of(out).values())
    workspace.token = COLLEAGUE_TOKEN
    bold = {"is_global": True, "credentials": [{"password": "x"}], "creator_id": 1}
    rows = [{**row, **bold} for row in tables_of(out)["connections"]]

    answer = await send(workspace, IMPORT, changed(out, connections=rows))

    assert answer.status == 201, answer.content
    made = set(answer.body["createdObjectMapping"]["connections"].values())
    lake = next(row for row in world.connections if row.id in made and row.name == "lake")
    assert (lake.name, lake.credentials, lake.is_global) == ("lake", (), False)
    assert lake.creator_id == workspace.things.colleague.id
    assert len({connection.uuid for connection in world.connections}) == len(world.connections)
    # He sees the other dataset in the flow that is shared with him.
    assert [row["name"] for row in answer.body["datasources"]] == ["prices"]
    (flow_id,) = answer.body["primaryFlowIds"]
    assert meaning_without_uuids(
        await fetch(workspace, f"/v4/flows/{flow_id}/package")
    ) == meaning_without_uuids(out)


def meaning_without_uuids(content: bytes) -> Any:
    tables = meaning(content)
    for row in tables["connections"]:
        row.pop("uuid")
    return tables


async def test_a_package_goes_into_a_folder(workspace: Workspace) -> None:
    """The flows are in the folder that the query names; an unknown one is refused."""
    world, me = workspace.world, workspace.things.owner.id
    folder = world.create(Folder, by=me, name="in")
    out = await fetch(workspace, package_path(workspace))

    answer = await send(workspace, IMPORT, out, folderId=str(folder.id))

    assert [row["folder"] for row in answer.body["flows"]] == [{"id": folder.id}] * 2
    before = fingerprint(world)
    lost = await send(workspace, IMPORT, out, folderId="9")
    assert lost.is_refused(400, "ValidationFailed", "folderId")
    assert fingerprint(world) == before


async def test_functions_are_overridden_on_request(workspace: Workspace) -> None:
    """A function of the same name keeps its content unless the query overrides it."""
    out = await fetch(workspace, package_path(workspace))
    functions = tables_of(out)["userdefinedfunctions"]
    newer = changed(out, userdefinedfunctions=[{**functions[0], "description": "newer"}])
    here = next(workspace.world.shelf(UserDefinedFunction).live())

    await send(workspace, IMPORT, newer)
    assert here.description is None

    await send(workspace, IMPORT, newer, overrideJsUdfs="true")
    assert here.description == "newer"
    workspace.token = COLLEAGUE_TOKEN
    refused = await send(workspace, IMPORT, newer, overrideJsUdfs="true")
    assert refused.is_refused(403, "AccessControlException", str(here.id))


async def test_only_what_one_sees_is_exported(workspace: Workspace) -> None:
    """A foreign flow is 403, one that builds upon a foreign flow 400, a deleted one 404."""
    world, things = workspace.world, workspace.things
    for path in ("package", "package/dryRun"):
        foreign = await workspace.get(f"/v4/flows/{things.stock.id}/{path}")
        assert foreign.is_refused(403, "AccessControlException", str(things.stock.id))
    workspace.token = COLLEAGUE_TOKEN
    for path in ("package", "package/dryRun"):
        shared = await workspace.get(f"/v4/flows/{things.orders.id}/{path}")
        assert shared.is_refused(400, "ValidationFailed", '"id"', "may not see")
    world.delete(things.orders)
    gone = await workspace.get(package_path(workspace))
    assert gone.is_refused(404, "DataNotFoundException")


async def test_links_to_what_is_gone_are_cut(workspace: Workspace) -> None:
    """A package is whole: a flow that still names something deleted can be imported."""
    world, things = workspace.world, workspace.things
    world.delete(things.totals)

    answer = await send(workspace, IMPORT, await fetch(workspace, package_path(workspace)))

    assert answer.status == 201, answer.content
    (task,) = world.webhook_tasks_of(answer.body["primaryFlowIds"][0])
    assert task.flow_node_ids == ()


async def test_a_form_with_the_file_is_accepted_too(workspace: Workspace) -> None:
    """A package is the body itself, or the part ``data`` of a form; JSON is refused."""
    out = await fetch(workspace, package_path(workspace))
    boundary = "----x"
    form = (
        (
            f'--{boundary}\r\nContent-Disposition: form-data; name="data"; filename="f.zip"\r\n'
            "Content-Type: application/zip\r\n\r\n"
        ).encode()
        + out
        + f"\r\n--{boundary}--\r\n".encode()
    )
    kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}

    imported = await workspace.request("POST", IMPORT, content=form, headers=kind)
    refused = await workspace.post(IMPORT, {"data": "x"})

    assert imported.status == 201, imported.content
    assert refused.status == 415


async def test_a_flow_may_hold_many_things(workspace: Workspace) -> None:
    """Hundreds of recipes with outputs go out and in within the time of a request."""
    world, me, orders = workspace.world, workspace.things.owner.id, workspace.things.orders
    for number in range(300):
        recipe = world.create(Recipe, by=me, flow_id=orders.id, name=f"r{number}")
        output = world.create(OutputObject, by=me, recipe_id=recipe.id)
        world.create(WriteSetting, by=me, output_object_id=output.id, path=f"gs://{number}")

    out = await fetch(workspace, package_path(workspace))
    answer = await send(workspace, IMPORT, out)

    assert answer.status == 201
    assert len(answer.body["recipes"]) == 303
