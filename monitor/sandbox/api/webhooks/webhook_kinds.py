"""Webhook tasks as data."""

from __future__ import annotations

from monitor.sandbox.api.response.kinds import Kind, OnDelete, Reference, Visibility
from monitor.sandbox.api.webhooks.webhook_shapes import WEBHOOK_RESOURCES
from monitor.sandbox.world.records.objects import Flow, Recipe, WebhookFlowTask

WEBHOOK_FLOW_TASK: Kind[WebhookFlowTask] = Kind(
    record=WebhookFlowTask,
    name="webhookFlowTask",
    plural="webhookflowtasks",
    model="WebhookFlowTask",
    requests=("WebhookFlowTaskCreateRequest",),
    references=(
        Reference(attribute="flow_id", target=Flow, shown="flow", sent="flowId"),
        Reference(attribute="flow_node_ids", target=Recipe, on_delete=OnDelete.CLEAR, many=True),
    ),
    home="flow_id",
    visibility=Visibility.HOME,
    resource=WEBHOOK_RESOURCES["webhookflowtasks"],
)
