"""Tests of folders: the plainest resource, made of data alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from monitor.sandbox.world.records.parts import Folder
from tests.sandbox.http_workspace import ADMIN_TOKEN, COLLEAGUE_TOKEN, Workspace, open_workspace

MISSING = "DataNotFoundException"


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as found:
        yield found


async def test_a_folder_lives_and_dies(workspace: Workspace) -> None:
    """A new folder is read, listed, counted, changed and deleted, and then 404."""
    made = await workspace.request(
        "POST", "/v4/folders", body={"name": "Sales", "description": None}
    )
    assert made.status == 201
    folder_id = made.body["id"]
    assert made.body["name"] == "Sales"
    assert made.body["creator"] == {"id": workspace.things.owner.id}

    changed = await workspace.request(
        "PATCH", f"/v4/folders/{folder_id}", body={"name": "Sales, old"}
    )
    assert (changed.status, set(changed.body)) == (200, {"id", "updater", "createdAt", "updatedAt"})

    read = await workspace.request("GET", f"/v4/folders/{folder_id}")
    assert read.body["name"] == "Sales, old"
    listed = await workspace.request("GET", "/v4/folders", query={"includeCount": "true"})
    assert listed.ids == [folder_id]
    assert listed.body["count"] == 1

    deleted = await workspace.request("DELETE", f"/v4/folders/{folder_id}")
    assert (deleted.status, deleted.content) == (204, b"")
    gone = await workspace.request("GET", f"/v4/folders/{folder_id}")
    assert gone.is_refused(404, MISSING, str(folder_id))
    assert (await workspace.request("GET", "/v4/folders/count")).body == {"count": 0}


async def test_folders_are_their_owners(workspace: Workspace) -> None:
    """A person neither lists nor changes another's folder, but an administrator may change it."""
    folder = workspace.world.create(Folder, by=workspace.things.owner.id, name="Sales")
    path = f"/v4/folders/{folder.id}"
    workspace.token = COLLEAGUE_TOKEN
    assert (await workspace.request("GET", "/v4/folders")).ids == []
    refused = await workspace.request("PATCH", path, body={"name": "Mine"})
    assert refused.is_refused(403, "AccessControlException", "folder")
    workspace.token = ADMIN_TOKEN
    assert (await workspace.request("PATCH", path, body={"name": "Ours"})).status == 200


async def test_a_null_clears_what_may_be_empty(workspace: Workspace) -> None:
    """A null gives a field its default."""
    folder = workspace.world.create(
        Folder, by=workspace.things.owner.id, name="Sales", description="of May"
    )
    path = f"/v4/folders/{folder.id}"
    assert (await workspace.request("PATCH", path, body={"description": None})).status == 200
    assert folder.description is None
    assert folder.name == "Sales"
    assert (await workspace.request("PATCH", path, body={"name": None})).status == 200
    assert folder.name == "Untitled folder"


async def test_flows_leave_a_folder_that_goes(workspace: Workspace) -> None:
    """A deleted folder deletes no flow."""
    folder = workspace.world.create(Folder, by=workspace.things.owner.id, name="Sales")
    orders = workspace.things.orders
    workspace.world.update(orders, folder_id=folder.id)
    embedded = await workspace.request("GET", f"/v4/folders/{folder.id}", query={"embed": "flows"})
    assert [flow["id"] for flow in embedded.body["flows"]["data"]] == [orders.id]
    assert (await workspace.request("DELETE", f"/v4/folders/{folder.id}")).status == 204
    assert orders.folder_id is None
    assert orders.deleted_at is None


@pytest.mark.parametrize("path", ["/v4/folders", "/v4/folders/count"])
@pytest.mark.parametrize(("parameter", "word"), [("sort", "-size"), ("embed", "plans")])
async def test_a_count_validates_what_its_list_validates(
    workspace: Workspace, path: str, parameter: str, word: str
) -> None:
    """A column or association that folders lack is refused, also where nothing is there."""
    refused = await workspace.get(path, **{parameter: word})
    assert refused.is_refused(400, "ValidationFailed", word.strip("-"))
