"""Samples of the operations on webhook tasks."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.world.records.objects import WebhookFlowTask
from tests.sandbox.samples.sample import Living, Sample, of

NOWHERE = "http://127.0.0.1:9"


def furnish(living: Living) -> None:
    """Make a webhook task of a flow."""
    living.create(WebhookFlowTask, flow_id=living.things.orders.id, name="tell", url=NOWHERE)


def definition(living: Living) -> dict[str, Any]:
    """Return what makes a webhook task."""
    return {
        "name": "tell",
        "flowId": living.things.orders.id,
        "url": NOWHERE,
        "method": "post",
        "triggerEvent": "onJobDone",
        "triggerObject": "any",
    }


SAMPLES = {
    "createWebhookFlowTask": Sample(body=definition),
    "testWebhook": Sample(body=lambda _: {"url": NOWHERE, "method": "post", "body": "{}"}),
    "getWebhookFlowTask": Sample(path=of(WebhookFlowTask)),
    "deleteWebhookFlowTask": Sample(path=of(WebhookFlowTask)),
}
