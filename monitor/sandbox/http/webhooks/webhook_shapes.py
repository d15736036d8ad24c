"""The payloads of webhook tasks."""

from __future__ import annotations

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.flows.flow_shapes import FLOW
from monitor.sandbox.http.kinds.shapes import NAMED, OWN, stamps
from monitor.sandbox.http.showing.rendering import Resource, View, reference
from monitor.sandbox.records.objects import WebhookFlowTask


def webhook_task(view: View, one: WebhookFlowTask) -> dict[str, Json]:
    del view
    return {
        **stamps(one),
        "name": one.name,
        "flow": reference(one.flow_id),
        "url": one.url,
        "method": one.method,
        "triggerEvent": one.trigger_event,
        "triggerObject": one.trigger_object,
        "flowNodeIds": list(one.flow_node_ids),
        "body": one.body,
        "headers": dict(one.headers),
        "secretKey": one.secret_key,
        "sslVerification": one.ssl_verification,
        "retryOnFailure": one.retry_on_failure,
    }


WEBHOOK_RESOURCES: dict[str, Resource] = {
    "webhookflowtasks": Resource(
        plural="webhookflowtasks",
        render=webhook_task,
        columns=NAMED,
        associations={**OWN, "flow": FLOW},
    ),
}
