"""The quotas of single operations, by the minute."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.sandbox.http_workspace import (
    ADMIN_TOKEN,
    COLLEAGUE_TOKEN,
    Answer,
    Workspace,
    open_workspace,
)

TEST = "/v4/webhooks/test"  # 20 a minute for a user, 30 for the workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


async def spend(workspace: Workspace, times: int) -> list[Answer]:
    """Use a quota up without anything happening: the body is refused afterwards."""
    return [await workspace.post(TEST, {}) for _ in range(times)]


async def test_the_rest_of_a_quota_stands_on_the_answer(workspace: Workspace) -> None:
    """Operations with a quota show limit, rest and reset, also when they refuse the body."""
    (answer,) = await spend(workspace, 1)

    headers = answer.headers
    reset = int(workspace.clock.now().timestamp() * 1000) + 60_000
    assert (headers["x-rate-limit-user-limit"], headers["x-rate-limit-user-remaining"]) == (
        "20",
        "19",
    )
    assert headers["x-rate-limit-workspace-remaining"] == "29"
    assert headers["x-rate-limit-user-reset"] == str(reset)
    assert "x-retry-after" not in headers


async def test_reads_have_no_quota(workspace: Workspace) -> None:
    """Without a documented quota there are no headers about one."""
    answer = await workspace.get("/v4/flows")

    assert [name for name in answer.headers if name.lower().startswith("x-rate")] == []


async def test_a_users_quota_is_refused_with_the_wait(workspace: Workspace) -> None:
    """The 21st request of a user in a minute is 429, and names the time until the next one."""
    await spend(workspace, 20)
    await workspace.clock.advance(3)

    (refused,) = await spend(workspace, 1)

    assert refused.is_refused(
        429, "TooManyRequestsException", '"testWebhook"', "Wait 57 seconds", "Max. 20", "per user"
    )
    assert refused.exception["message"] == "Too Many Requests"
    assert refused.headers["x-retry-after"] == "57"
    assert refused.headers["x-rate-limit-user-remaining"] == "0"
    assert refused.headers["x-rate-limit-workspace-remaining"] == "10"


async def test_the_workspaces_quota_is_shared(workspace: Workspace) -> None:
    """Three people together are stopped by the quota of the workspace."""
    await spend(workspace, 20)
    workspace.token = COLLEAGUE_TOKEN
    await spend(workspace, 10)
    workspace.token = ADMIN_TOKEN

    (refused,) = await spend(workspace, 1)

    assert refused.is_refused(429, "TooManyRequestsException", "Max. 30", "per workspace")
    assert refused.headers["x-rate-limit-user-remaining"] == "20"


async def test_a_minute_later_all_is_well(workspace: Workspace) -> None:
    """A new window begins when the old one is over."""
    await spend(workspace, 20)
    await workspace.clock.advance(60)

    (answer,) = await spend(workspace, 1)

    assert answer.status == 400
    assert answer.headers["x-rate-limit-user-remaining"] == "19"


async def test_quotas_do_not_share(workspace: Workspace) -> None:
    """Each operation counts on its own."""
    await spend(workspace, 20)

    answer = await workspace.post("/v4/jobGroups", {})

    assert answer.status == 400
    assert answer.headers["x-rate-limit-user-limit"] == "30"
