"""Webhook tasks: made, read, deleted, and their settings really tested."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from monitor.sandbox.world.records.objects import WebhookFlowTask
from tests.sandbox.http_workspace import Workspace, open_workspace
from tests.servers import free_port

TASKS = "/v4/webhookFlowTasks"
FLOW_ID = 101


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


def task(**values: Any) -> dict[str, Any]:
    return {
        "name": "tell",
        "flowId": FLOW_ID,
        "url": "https://monitor.example.com/hooks/x",
        "method": "post",
        "triggerEvent": "onJobDone",
        "triggerObject": "any",
        **values,
    }


async def test_a_task_is_made_read_and_deleted(workspace: Workspace) -> None:
    """A task comes back as it was sent, with the defaults; deleting answers it once more."""
    sent = task(body='{"id":"$jobId"}', headers={"X-Key": "k"}, retryOnFailure=True)

    made = await workspace.post(TASKS, sent)
    path = f"{TASKS}/{made.body['id']}"
    read = await workspace.get(path, embed="flow")
    deleted = await workspace.request("DELETE", path)
    gone = await workspace.get(path)

    assert made.status == 201
    assert {name: made.body[name] for name in sent if name != "flowId"} == {
        name: value for name, value in sent.items() if name != "flowId"
    }
    assert made.body["flow"] == {"id": FLOW_ID}
    assert made.body["sslVerification"] is True
    assert read.body["flow"]["name"] == "Orders"
    assert deleted.status == 200
    assert deleted.body["id"] == made.body["id"]
    assert gone.is_refused(404, "DataNotFoundException", str(made.body["id"]))


async def test_a_task_may_be_about_some_outputs(workspace: Workspace) -> None:
    """With triggerObject some, the flow nodes are kept."""
    node_id = workspace.things.totals.id

    made = await workspace.post(TASKS, task(triggerObject="some", flowNodeIds=[node_id]))

    assert made.body["flowNodeIds"] == [node_id]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"flowId": None}, "flowId"),
        ({"flowId": 999_999}, "flowId"),
        ({"flowId": "x"}, "flowId"),
        ({"url": "monitor"}, "url"),
        ({"url": "ftp://monitor.example.com"}, "url"),
        ({"url": "http://[broken"}, "url"),
        ({"url": "http://host:99999999"}, "url"),
        ({"url": "http://"}, "url"),
        ({"method": "POST"}, "method"),
        ({"triggerEvent": "onMoon"}, "triggerEvent"),
        ({"triggerObject": "none"}, "triggerObject"),
        ({"triggerObject": "some"}, "flowNodeIds"),
        ({"triggerObject": "some", "flowNodeIds": [1]}, "flowNodeIds[0]"),
        ({"body": {}}, "body"),
        ({"headers": []}, "headers"),
        ({"headers": {"X-Key": 1}}, "headers.X-Key"),
        ({"retryOnFailure": "yes"}, "retryOnFailure"),
    ],
)
async def test_a_bad_task_names_its_field(
    workspace: Workspace, values: dict[str, Any], field: str
) -> None:
    """A document that is no task is 400 and is not kept."""
    answer = await workspace.post(TASKS, task(**values))

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')
    assert len(workspace.world.webhook_tasks) == 0


async def test_a_flow_has_at_most_fifty(workspace: Workspace) -> None:
    """The 51st task of a flow is refused, until one is deleted."""
    for number in range(50):
        workspace.world.create(
            WebhookFlowTask, by=11, flow_id=FLOW_ID, name=f"n{number}", url="http://x.example"
        )

    refused = await workspace.post(TASKS, task())
    workspace.world.delete(next(iter(workspace.world.webhook_tasks)))
    accepted = await workspace.post(TASKS, task())

    assert refused.is_refused(400, "ValidationFailed", "50")
    assert accepted.status == 201


async def test_a_test_really_sends_one_request(workspace: Workspace) -> None:
    """Testing settings sends the request as it stands and answers the status it got."""
    received: list[tuple[str, str, str]] = []

    async def receive(request: web.Request) -> web.Response:
        received.append((request.method, request.headers["X-Key"], await request.text()))
        return web.Response(status=418)

    receiver = web.Application()
    receiver.router.add_route("*", "/hook", receive)
    runner = web.AppRunner(receiver, access_log=None)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    sending = asyncio.create_task(workspace.deliveries.run())
    try:
        answer = await workspace.post(
            "/v4/webhooks/test",
            {
                "url": f"http://127.0.0.1:{port}/hook",
                "method": "put",
                "body": "hello",
                "headers": {"X-Key": "k"},
            },
        )
        refused = await workspace.post(
            "/v4/webhooks/test", {"url": f"http://127.0.0.1:{free_port()}/", "method": "get"}
        )
    finally:
        sending.cancel()
        await asyncio.wait({sending}, timeout=30)
        await runner.cleanup()

    assert answer.status == 200
    assert answer.body == {"statusCode": 418}
    assert received == [("PUT", "k", "hello")]
    assert refused.status == 200
    assert refused.body.keys() == {"error"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": "nowhere", "method": "post"}, "url"),
        ({"url": "http://x.example"}, "method"),
        ({"url": "http://x.example", "method": "shout"}, "method"),
    ],
)
async def test_a_bad_test_names_its_field(
    workspace: Workspace, body: dict[str, Any], field: str
) -> None:
    """Settings that cannot be sent are 400."""
    answer = await workspace.post("/v4/webhooks/test", body)

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')
