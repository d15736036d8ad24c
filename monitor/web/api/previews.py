"""``/api/v1/alerts/{fingerprint}/messages``: what channels to people would send about an alert."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from monitor.model.notifying import MessagePreview
from monitor.web.views.alerts.alert_details import AlertQuery, no_alert
from monitor.web.views.view import View, ViewSources


class MessagePreviews(Struct, frozen=True, kw_only=True):
    """The message of each channel, in the order of the configuration. Nothing is sent."""

    data: Sequence[MessagePreview]


def previews_view(sources: ViewSources) -> View:
    async def read(query: AlertQuery) -> MessagePreviews:
        previews = await sources.alerting.preview(query.fingerprint)
        if previews is None:
            raise no_alert(query.fingerprint, sources.alerting.snapshot().alerts)
        return MessagePreviews(data=previews)

    return View(
        name="alert_messages",
        summary="The messages that channels to people would send about an alert now.",
        api="/api/v1/alerts/{fingerprint}/messages",
        query=AlertQuery,
        answer=MessagePreviews,
        read=read,
    )
