"""The record of the output ``webhook``."""

from __future__ import annotations

from monitor.outputs.event_selection import selected_types
from monitor.outputs.record import OutputRecord
from monitor.outputs.settings import receiver_of
from monitor.outputs.webhook.settings import WebhookSettings


def _receivers(settings: WebhookSettings) -> list[str]:
    # Without the path: many receivers identify their customers by a secret in it.
    return [receiver_of(settings.url).partition("/")[0]]


WEBHOOK = OutputRecord(
    section="webhook",
    settings=WebhookSettings,
    output="monitor.outputs.webhook.output:WebhookOutput",
    receivers=_receivers,
    types=lambda settings: selected_types(settings.events),
)
