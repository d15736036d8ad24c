"""Tests of flows: made, named, changed, copied, deleted, shared and put into folders."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from monitor.sandbox.world.records.objects import (
    Flow,
    ImportedDataset,
    OutputObject,
    Schedule,
    ScheduleTask,
    WebhookFlowTask,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import FlowEdge, FlowRunParameterOverride, Folder
from tests.sandbox.http_workspace import ADMIN_TOKEN, COLLEAGUE_TOKEN, Workspace, open_workspace

MISSING = "DataNotFoundException"
DENIED = "AccessControlException"


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as found:
        yield found


async def test_flows_get_names(workspace: Workspace) -> None:
    """A flow without a name gets one, and a number where it shall differ from others."""
    names = []
    for body in (
        {},
        {"name": "Sales"},
        {"name": "Sales"},
        {"name": "Sales", "incrementName": True},
    ):
        made = await workspace.post("/v4/flows", body)
        assert made.status == 201
        names.append(made.body["name"])
    assert names == ["Untitled flow", "Sales", "Sales", "Sales (1)"]


async def test_a_flow_is_made_in_a_folder(workspace: Workspace) -> None:
    """A flow names a folder that its owner has, and no other."""
    own = workspace.world.create(Folder, by=workspace.things.owner.id, name="Sales")
    other = workspace.world.create(Folder, by=workspace.things.colleague.id, name="Private")
    made = await workspace.post("/v4/flows", {"name": "New", "folderId": own.id})
    assert made.body["folder"] == {"id": own.id}
    refused = await workspace.post("/v4/flows", {"name": "New", "folderId": other.id})
    assert refused.is_refused(400, "ValidationFailed", '"folderId"', "folder")
    nowhere = await workspace.post("/v4/flows", {"name": "New", "folderId": 9})
    assert nowhere.is_refused(400, "ValidationFailed", '"folderId"')


async def test_a_change_keeps_what_was_not_sent(workspace: Workspace) -> None:
    """A patch answers few fields, changes those sent, and never leaves a flow nameless."""
    path = f"/v4/flows/{workspace.things.orders.id}"
    await workspace.clock.advance(60)
    changed = await workspace.request("PATCH", path, body={"description": "of the north"})
    assert set(changed.body) == {"id", "updater", "createdAt", "updatedAt"}
    read = (await workspace.get(path)).body
    assert (read["name"], read["description"]) == ("Orders", "of the north")
    assert read["updatedAt"] == changed.body["updatedAt"] > read["createdAt"]
    for name in (None, "", 7):
        refused = await workspace.request("PATCH", path, body={"name": name})
        assert refused.is_refused(400, "ValidationFailed", '"name"')


async def test_folders_and_their_counts_agree(workspace: Workspace) -> None:
    """Moving, deleting and other people's eyes change a folder's list and count alike."""
    orders = workspace.things.orders
    first, second = [
        workspace.world.create(Folder, by=workspace.things.owner.id, name=name) for name in "AB"
    ]

    async def flow_ids(folder: Folder, token: str | None = None) -> list[int]:
        path = f"/v4/folders/{folder.id}/flows"
        listed = await workspace.request("GET", path, token=token, query={"includeCount": "true"})
        counted = await workspace.request("GET", f"{path}/count", token=token)
        assert counted.body == {"count": len(listed.ids)}
        assert listed.body["count"] == len(listed.ids)
        return listed.ids

    await workspace.request("PATCH", f"/v4/flows/{orders.id}", body={"folderId": first.id})
    assert (await flow_ids(first), await flow_ids(second)) == ([orders.id], [])
    assert await flow_ids(first, COLLEAGUE_TOKEN) == []
    await workspace.request("PATCH", f"/v4/flows/{orders.id}", body={"folderId": second.id})
    assert (await flow_ids(first), await flow_ids(second)) == ([], [orders.id])
    assert (await workspace.request("DELETE", f"/v4/flows/{orders.id}")).status == 204
    assert await flow_ids(second) == []


async def test_a_deleted_flow_deletes_its_parts(workspace: Workspace) -> None:
    """Recipes, outputs, webhooks and parameters go; runs stay, and schedules are disabled."""
    things, world = workspace.things, workspace.world
    orders, by = things.orders, things.owner.id
    run = workspace.job_group()
    hook = world.create(WebhookFlowTask, by=by, flow_id=orders.id, name="Tell", url="http://a.b")
    override = world.create(
        FlowRunParameterOverride, by=by, flow_id=orders.id, override_key="day", value="8"
    )
    schedule = world.create(
        Schedule,
        by=by,
        name="Nightly",
        triggers=(),
        tasks=(ScheduleTask(kind="flow", target_id=orders.id),),
    )
    assert (await workspace.request("DELETE", f"/v4/flows/{orders.id}")).status == 204
    gone = [orders, things.clean, things.totals, hook, override]
    gone += [
        output_object_
        for output_object_ in world.output_objects
        if output_object_.recipe_id == things.clean.id
    ]
    assert all(item.deleted_at is not None for item in gone)
    assert (await workspace.get(f"/v4/flows/{orders.id}")).is_refused(404, MISSING)
    assert (await workspace.get(f"/v4/webhookFlowTasks/{hook.id}")).is_refused(404, MISSING)
    assert (await workspace.get(f"/v4/jobGroups/{run.id}")).status == 200
    assert not schedule.enabled
    assert schedule.disable_reason


async def test_a_copy_stands_on_its_own(workspace: Workspace) -> None:
    """A copy has recipes and outputs of its own, no webhooks, and its runs name the copy."""
    things, world = workspace.things, workspace.world
    world.create(
        WebhookFlowTask, by=things.owner.id, flow_id=things.orders.id, name="Tell", url="http://a.b"
    )
    ends = {"input_node_id": things.clean.id, "output_node_id": things.totals.id}
    world.create(FlowEdge, by=things.owner.id, flow_id=things.orders.id, **ends)
    made = await workspace.post(
        f"/v4/flows/{things.orders.id}/copy", {"name": "", "description": ""}
    )
    assert (made.status, made.body["name"]) == (201, "Copy of Orders")
    copy_id = made.body["id"]
    clean, totals = world.recipes_of(copy_id)
    assert totals.upstream_ids == (clean.id,)
    assert clean.dataset_ids == things.clean.dataset_ids
    assert len(world.outputs_of(clean.id)) == len(world.outputs_of(things.clean.id))
    assert world.webhook_tasks_of(copy_id) == []
    edge = list(world.shelf(FlowEdge).live())[-1]
    assert (edge.flow_id, edge.input_node_id, edge.output_node_id) == (copy_id, clean.id, totals.id)

    assert (await workspace.request("DELETE", f"/v4/flows/{things.orders.id}")).status == 204
    run = await workspace.post(f"/v4/flows/{copy_id}/run", {})
    assert run.status == 201
    started = world.job_groups.get(run.body["data"][0]["id"])
    assert started is not None
    assert started.flow_id == copy_id


async def test_a_copy_may_have_data_of_its_own(workspace: Workspace) -> None:
    """With copyDatasources the copy's recipes read copies of the datasets."""
    things, world = workspace.things, workspace.world
    before = {imported_dataset.id for imported_dataset in world.imported_datasets}
    made = await workspace.post(
        f"/v4/flows/{things.orders.id}/copy", {"name": "Mine", "copyDatasources": True}
    )
    clean = world.recipes_of(made.body["id"])[0]
    assert clean.dataset_ids
    assert before.isdisjoint(clean.dataset_ids)


async def test_strangers_copy_nothing(workspace: Workspace) -> None:
    """Only who sees a flow may copy it."""
    path = f"/v4/flows/{workspace.things.orders.id}/copy"
    refused = await workspace.request("POST", path, body={}, token=COLLEAGUE_TOKEN)
    assert refused.is_refused(403, DENIED)
    assert (await workspace.request("POST", path, body={}, token=ADMIN_TOKEN)).status == 201


async def test_roles_in_a_shared_flow(workspace: Workspace) -> None:
    """A reader sees a flow, a collaborator changes it and its parts, and neither shares it."""
    things = workspace.things
    path = f"/v4/flows/{things.orders.id}"
    output = workspace.world.create(OutputObject, by=things.owner.id, recipe_id=things.clean.id)
    setting = workspace.world.create(
        WriteSetting, by=things.owner.id, output_object_id=output.id, path="gs://a/b.csv"
    )

    async def share(role: str) -> list[str]:
        row = {"email": things.colleague.email.upper(), "role": role}
        shared = await workspace.post(f"{path}/permissions", {"data": [row]})
        assert shared.status == 201
        return [item["role"] for item in shared.body["data"]]

    async def statuses() -> list[int]:
        answers = [
            await workspace.request(
                "PATCH", path, body={"description": "x"}, token=COLLEAGUE_TOKEN
            ),
            await workspace.request(
                "PATCH",
                f"/v4/writeSettings/{setting.id}",
                body={"path": "gs://a/c.csv"},
                token=COLLEAGUE_TOKEN,
            ),
            await workspace.request(
                "POST", f"{path}/permissions", body={"data": [13]}, token=COLLEAGUE_TOKEN
            ),
        ]
        return [answer.status for answer in answers]

    assert await statuses() == [403, 403, 403]
    assert await share("readOnly") == ["owner", "readOnly"]
    assert await statuses() == [403, 403, 403]
    listed = await workspace.request(
        "GET", "/v4/flows", query={"flowsFilter": "shared"}, token=COLLEAGUE_TOKEN
    )
    assert listed.ids == [things.orders.id]
    assert await share("collaborator") == ["owner", "collaborator"]
    assert await statuses() == [200, 200, 403]


@pytest.mark.parametrize("row", [999, "unknown@example.com", {}, {"personId": []}, None, [1]])
async def test_a_flow_is_shared_with_known_people_only(workspace: Workspace, row: object) -> None:
    """A row that names no person is refused by its place."""
    path = f"/v4/flows/{workspace.things.orders.id}/permissions"
    refused = await workspace.post(path, {"data": [row]})
    assert refused.is_refused(400, "ValidationFailed", "data[0]")


async def test_the_library_mixes_flows_and_folders(workspace: Workspace) -> None:
    """Rows show their type, and the counts are those of the rows."""
    things = workspace.things
    folder = workspace.world.create(Folder, by=things.owner.id, name="Sales")
    path = "/v4/flowsLibrary"
    both = await workspace.get(path, includeCount="true")
    assert [(row["type"], row["id"]) for row in both.body["data"]] == [
        ("folder", folder.id),
        ("flow", things.orders.id),
    ]
    counted = await workspace.get(f"{path}/count")
    assert counted.body == {"count": both.body["count"]}
    assert both.body["count"] == {"all": 2, "flows": 1, "owned": 1, "shared": 0, "folders": 1}
    assert (await workspace.get(path, excludeFolders="true")).ids == [things.orders.id]
    assert (await workspace.get(path, limit="1", offset="1")).ids == [things.orders.id]
    assert (await workspace.get(path, filter="sal", filterType="contains")).ids == [folder.id]
    assert (await workspace.get(path, sort="-name")).ids == [folder.id, things.orders.id]
    embedded = await workspace.get(path, embed="flowNodes,flows", fields="id;type;folder")
    of_folder, of_flow = embedded.body["data"]
    assert of_folder["flowNodes"] == of_flow["flows"] == {"data": []}
    assert len(of_flow["flowNodes"]["data"]) == 2
    workspace.token = ADMIN_TOKEN
    everything = await workspace.get(f"{path}/count", flowsFilter="all")
    assert everything.body["count"]["shared"] == 2


async def test_a_flow_embeds_what_is_in_it(workspace: Workspace) -> None:
    """Its folder, nodes and webhooks can be shown with it, and what these hold."""
    orders = workspace.things.orders
    folder = workspace.world.create(Folder, by=workspace.things.owner.id, name="Sales")
    workspace.world.update(orders, folder_id=folder.id)
    read = await workspace.get(
        f"/v4/flows/{orders.id}", embed="folder.creator,flowNodes.recipe,webhookFlowTasks"
    )
    assert read.body["folder"]["name"] == "Sales"
    assert read.body["folder"]["creator"]["email"] == workspace.things.owner.email
    names = [node["recipe"]["name"] for node in read.body["flowNodes"]["data"]]
    assert names == [workspace.things.clean.name, workspace.things.totals.name]
    assert read.body["webhookFlowTasks"] == {"data": []}


async def test_a_flow_lists_its_inputs_and_outputs(workspace: Workspace) -> None:
    """A flow lists the datasets that it reads and the outputs of its recipes."""
    things, world = workspace.things, workspace.world
    path = f"/v4/flows/{things.orders.id}"
    inputs = await workspace.get(f"{path}/inputs")
    read = {
        dataset_id_
        for recipe in world.recipes_of(things.orders.id)
        for dataset_id_ in recipe.dataset_ids
    }
    assert (
        read
        <= set(inputs.ids)
        <= {imported_dataset.id for imported_dataset in world.shelf(ImportedDataset)}
    )
    outputs = await workspace.get(f"{path}/outputs")
    recipes = {things.clean.id, things.totals.id}
    assert outputs.ids == [
        output_object_.id
        for output_object_ in world.output_objects.newest()
        if output_object_.recipe_id in recipes
    ]


async def test_lists_within_lists_have_an_end(workspace: Workspace) -> None:
    """A short query cannot request millions of records."""
    folder = workspace.world.create(Folder, by=workspace.things.owner.id, name="Sales")
    for number in range(80):
        workspace.world.create(
            Flow, by=workspace.things.owner.id, name=f"Flow {number}", folder_id=folder.id
        )
    path = f"/v4/folders/{folder.id}"
    some = await workspace.get(path, embed="flows.folder.flows")
    assert len(some.body["flows"]["data"][79]["folder"]["flows"]["data"]) == 80
    refused = await workspace.get(path, embed="flows.folder.flows.folder.flows")
    assert refused.is_refused(400, "ValidationFailed", "embed", "100000")
