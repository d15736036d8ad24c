"""What is assumed of webhook tasks."""

from __future__ import annotations

from monitor.sandbox.api.assumptions.assumption import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        key="webhook-deletion",
        operations=("deleteWebhookFlowTask",),
        text="The deletion answers 200 with the task, as the specification says.",
    ),
    Assumption(
        key="errors-of-webhook-tests",
        operations=("testWebhook",),
        text="The error of a test is an object with a `message`.",
    ),
)
