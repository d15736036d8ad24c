"""Checks whether the webhook's receiver can be reached."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from monitor.model.checks import CheckLine, failed, is_failed, ok
from monitor.model.clock import Clock
from monitor.outputs.certificates import ANSWER_SECONDS, check_tls
from monitor.outputs.webhook.settings import WebhookSettings

_WEBHOOK = "webhook"


async def check_webhook(settings: WebhookSettings, *, clock: Clock) -> list[CheckLine]:
    """Connect, and post nothing: a receiver would take any post for an alert."""
    tls = await check_tls(_WEBHOOK, settings.url, settings, clock=clock)
    if is_failed(tls):
        return tls
    parts = urlsplit(settings.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except OSError as exc:
        hint = "see that the receiver runs, and correct url in [webhook]"
        return [
            failed(_WEBHOOK, f"no connection: {str(exc) or 'no answer in time'}", hint),
            *tls,
        ]
    writer.close()
    return [ok(_WEBHOOK, "accepts connections; nothing was posted"), *tls]
