"""Requests for a run that are sent again start nothing again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from tests.sandbox.http_workspace import Workspace, open_workspace

AT_ONCE = 10  # below every quota


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


@pytest.mark.parametrize("kind", ["jobGroups", "flows", "plans"])
async def test_of_many_requests_at_once_one_starts_a_run(workspace: Workspace, kind: str) -> None:
    """However many arrive together with one x-execution-id: one is 201, the others 304, empty."""
    things, world = workspace.things, workspace.world
    path = {
        "jobGroups": "/v4/jobGroups",
        "flows": f"/v4/flows/{things.orders.id}/run",
        "plans": f"/v4/plans/{things.nightly.id}/run",
    }[kind]
    body = {"wrangledDataset": {"id": things.clean.id}}

    answers = await asyncio.gather(
        *(workspace.post(path, body, x_execution_id="one") for _ in range(AT_ONCE))
    )

    assert Counter(answer.status for answer in answers) == {201: 1, 304: AT_ONCE - 1}
    assert {answer.content for answer in answers if answer.status == 304} == {b""}
    started = {
        "jobGroups": len(world.job_groups),
        "flows": len(world.flow_runs),
        "plans": len(world.plan_runs),
    }
    assert started[kind] == 1


async def test_a_refused_request_may_be_sent_again(workspace: Workspace) -> None:
    """A request that started nothing leaves its x-execution-id free: refused, or a test only."""
    good = {"wrangledDataset": {"id": workspace.things.clean.id}}
    bodies = [{"wrangledDataset": {"id": 999_999}}, {**good, "testMode": True}, good, good]

    answers = [await workspace.post("/v4/jobGroups", body, x_execution_id="x") for body in bodies]

    assert [answer.status for answer in answers] == [400, 201, 201, 304]
    assert len(workspace.world.job_groups) == 1
