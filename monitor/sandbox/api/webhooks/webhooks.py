"""Webhook tasks: what they show, and the operations on them."""

from __future__ import annotations

from urllib.parse import urlsplit

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import crud, found
from monitor.sandbox.api.errors import bad_field, validation_failed
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.response.kinds import (
    Kind,
    OnDelete,
    Reference,
)
from monitor.sandbox.api.workspace.configuration import whole_number
from monitor.sandbox.world.records.objects import Flow, HttpTask, Recipe, WebhookFlowTask

WEBHOOK_FLOW_TASK: Kind[WebhookFlowTask] = Kind(
    record=WebhookFlowTask,
    references=(
        Reference("flow_id", Flow, shown="flow", sent="flowId"),
        Reference("flow_node_ids", Recipe, on_delete=OnDelete.CLEAR, many=True),
    ),
    home="flow_id",
)


METHODS = ("post", "get", "put", "patch", "delete")
EVENTS = ("onJobFailure", "onJobSuccess", "onJobDone")
LONGEST_URL = 2048


def create_task(call: Call) -> Reply:
    """Register a request that is sent when job groups of a flow end."""
    body = Body(call.body)
    flow = call.world.flows.get(body.integer("flowId"))
    if flow is None or not call.view.may_see(flow):
        raise bad_field("flowId", "names no flow of this workspace")
    trigger_object = body.text("triggerObject", one_of=("any", "some"))
    values = {
        "name": body.text("name"),
        "url": _url(body),
        "method": body.text("method", one_of=METHODS),
        "trigger_event": body.text("triggerEvent", one_of=EVENTS),
        "trigger_object": trigger_object,
        "flow_node_ids": _flow_node_ids(call, flow, body, required=trigger_object == "some"),
        "body": body.optional_text("body"),
        "headers": body.texts("headers"),
        "secret_key": body.optional_text("secretKey"),
        "ssl_verification": body.boolean("sslVerification", default=True),
        "retry_on_failure": body.boolean("retryOnFailure"),
    }
    most = whole_number(call.world, "webhooks.maximumPerFlow")
    if len(call.world.webhook_tasks_of(flow.id)) >= most:
        raise validation_failed(
            f"Flow {flow.id} has {most} webhooks, which is the most it can have"
        )
    task = call.world.create(WebhookFlowTask, by=call.person.id, flow_id=flow.id, **values)
    return Reply(status=201, body=call.show("webhookflowtasks", task).body)


def _url(body: Body) -> str:
    url = body.text("url", longest=LONGEST_URL)
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_web = False
    if not is_web:
        raise bad_field("url", "must be a valid URL of http or https")
    return url


def _flow_node_ids(call: Call, flow: Flow, body: Body, *, required: bool) -> tuple[int, ...]:
    ids = body.integers("flowNodeIds")
    if required and not ids:
        raise bad_field("flowNodeIds", 'is required when triggerObject is "some"')
    known = {recipe.id for recipe in call.world.recipes_of(flow.id)}
    for index, node_id in enumerate(ids):
        if node_id not in known:
            raise bad_field(f"flowNodeIds[{index}]", f"names no node of flow {flow.id}")
    return ids


def delete_task(call: Call) -> Reply:
    """Delete a webhook task and show it once more; nothing is sent for it from now on."""
    task = found(call, WEBHOOK_FLOW_TASK)
    call.world.delete(task)
    return call.show("webhookflowtasks", task)


async def send_test(call: Call) -> Reply:
    """Send the request once, now, and return the outcome; a failed request is no error."""
    body = Body(call.body)
    request = HttpTask(
        url=_url(body),
        method=body.text("method", one_of=METHODS),
        body=body.optional_text("body") or "",
        headers=body.texts("headers"),
        secret_key=body.optional_text("secretKey") or "",
        ssl_verification=body.boolean("sslVerification", default=True),
    )
    answer = await call.services.deliveries.test(request)
    if answer.status_code is None:
        return Reply(body={"error": {"message": answer.error}})
    return Reply(body={"statusCode": answer.status_code})


HANDLERS: Handlers = {
    **crud(WEBHOOK_FLOW_TASK),
    "createWebhookFlowTask": create_task,
    "deleteWebhookFlowTask": delete_task,
    "testWebhook": send_test,
}
