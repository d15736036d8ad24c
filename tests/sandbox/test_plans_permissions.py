"""With whom plans are shared, and what those may do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.sandbox.http_workspace import ADMIN_TOKEN, COLLEAGUE_TOKEN, Workspace, open_workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


def permissions(workspace: Workspace) -> str:
    return f"/v4/plans/{workspace.things.nightly.id}/permissions"


async def share(workspace: Workspace, row: Any, token: str | None = None) -> Any:
    return await workspace.request(
        "POST", permissions(workspace), body={"data": [row]}, token=token
    )


@pytest.mark.parametrize(
    ("row", "role", "status"),
    [
        (12, "collaborator", 200),
        ("12", "collaborator", 200),
        ("colleague@example.com", "collaborator", 200),
        ({"personId": 12, "role": "readOnly"}, "readOnly", 403),
        ({"person": {"id": 12}}, "collaborator", 200),
        ({"email": "Colleague@example.com", "role": "readOnly"}, "readOnly", 403),
    ],
)
async def test_a_shared_plan_is_visible_and_changed_by_role(
    workspace: Workspace, row: Any, role: str, status: int
) -> None:
    """A collaborator sees and changes a plan, a reader only sees it."""
    plan_id = workspace.things.nightly.id
    assert workspace.things.colleague.id == 12

    shared = await share(workspace, row)

    assert shared.status == 201
    assert [(item["person"]["id"], item["role"]) for item in shared.body["data"]] == [(12, role)]
    workspace.token = COLLEAGUE_TOKEN
    listed = await workspace.get("/v4/plans", ownershipFilter="shared")
    assert listed.ids == [plan_id]
    changed = await workspace.request("PATCH", f"/v4/plans/{plan_id}", body={"description": "ours"})
    assert changed.status == status
    node = await workspace.post("/v4/planNodes", {"planId": plan_id, "taskType": "delay"})
    assert node.status == (201 if status == 200 else status)


async def test_permissions_list_the_owner_first(workspace: Workspace) -> None:
    """The list has the owner and all with whom the plan is shared, each with a role."""
    await share(workspace, {"personId": workspace.things.colleague.id, "role": "readOnly"})

    answer = await workspace.get(permissions(workspace))

    assert [(item["email"], item["role"]) for item in answer.body["data"]] == [
        ("owner@example.com", "owner"),
        ("colleague@example.com", "readOnly"),
    ]


async def test_a_share_is_revoked(workspace: Workspace) -> None:
    """A deleted permission hides the plan; deleting it again, or a stranger's, is 404."""
    colleague = workspace.things.colleague.id
    await share(workspace, colleague)
    path = f"{permissions(workspace)}/{colleague}"

    assert (await workspace.request("DELETE", path)).status == 204

    listed = await workspace.request("GET", "/v4/plans?ownershipFilter=all", token=COLLEAGUE_TOKEN)
    assert workspace.things.nightly.id not in listed.ids
    assert (await workspace.request("DELETE", path)).is_refused(404, "DataNotFoundException")
    for unknown in ("999999", "who"):
        answer = await workspace.request("DELETE", f"{permissions(workspace)}/{unknown}")
        assert answer.is_refused(404, "DataNotFoundException", unknown)


async def test_who_shares_a_plan_may_leave_it_but_not_share_it(workspace: Workspace) -> None:
    """Only owner and administrators share; anybody may give up what was shared."""
    colleague, admin = workspace.things.colleague.id, workspace.things.admin.id
    await share(workspace, colleague)

    refused = await share(workspace, admin, token=COLLEAGUE_TOKEN)
    assert refused.is_refused(403, "AccessControlException")
    assert (await share(workspace, colleague, token=ADMIN_TOKEN)).status == 201
    left = await workspace.request(
        "DELETE", f"{permissions(workspace)}/{colleague}", token=COLLEAGUE_TOKEN
    )
    assert left.status == 204
    assert workspace.things.nightly.shared_with == frozenset()


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (999_999, "data[0]"),
        ("unknown@example.com", "data[0]"),
        ({}, "data[0].personId"),
        ({"personId": 12, "role": "king"}, "data[0].role"),
        ({"personId": 12, "role": "owner"}, "data[0].role"),
        ({"email": "unknown@example.com"}, "data[0].email"),
        (1.5, "data[0]"),
    ],
)
async def test_a_bad_share_names_its_row(workspace: Workspace, row: Any, field: str) -> None:
    """A row that names no person, or a role that cannot be, is 400 and shares nothing."""
    answer = await share(workspace, row)

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')
    assert workspace.things.nightly.shared_with == frozenset()
