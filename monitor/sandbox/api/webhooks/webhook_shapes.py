"""The payloads of webhook tasks."""

from __future__ import annotations

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.flows.flow_shapes import FLOW
from monitor.sandbox.api.response.kinds import Resource, View
from monitor.sandbox.api.response.rendering import NAMED, OWN, reference, stamps
from monitor.sandbox.world.records.objects import WebhookFlowTask


def webhook_task(view: View, webhook_flow_task: WebhookFlowTask) -> dict[str, Json]:
    del view
    return {
        **stamps(webhook_flow_task),
        "name": webhook_flow_task.name,
        "flow": reference(webhook_flow_task.flow_id),
        "url": webhook_flow_task.url,
        "method": webhook_flow_task.method,
        "triggerEvent": webhook_flow_task.trigger_event,
        "triggerObject": webhook_flow_task.trigger_object,
        "flowNodeIds": list(webhook_flow_task.flow_node_ids),
        "body": webhook_flow_task.body,
        "headers": dict(webhook_flow_task.headers),
        "secretKey": webhook_flow_task.secret_key,
        "sslVerification": webhook_flow_task.ssl_verification,
        "retryOnFailure": webhook_flow_task.retry_on_failure,
    }


WEBHOOK_RESOURCES: dict[str, Resource] = {
    "webhookflowtasks": Resource(
        plural="webhookflowtasks",
        render=webhook_task,
        columns=NAMED,
        associations={**OWN, "flow": FLOW},
    ),
}
