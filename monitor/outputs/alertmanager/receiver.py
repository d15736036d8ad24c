"""The receivers of alerts: the URL of each Alertmanager, with its credentials."""

from __future__ import annotations

import base64

from monitor.model.clock import Clock
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.http import HttpReceiver
from monitor.outputs.leases import MaySend

JSON = {"Content-Type": "application/json"}
_PATH = "/api/v2/alerts"


def receiver_at(
    url: str, *, settings: AlertmanagerSettings, clock: Clock, may_send: MaySend | None = None
) -> HttpReceiver:
    """Return what posts to this Alertmanager; it shows the text of a refusal."""
    return HttpReceiver(
        url.rstrip("/") + _PATH,
        settings=settings,
        clock=clock,
        headers=lambda: _credentials(settings),
        may_send=may_send,
        shows_answers=True,
    )


def _credentials(settings: AlertmanagerSettings) -> dict[str, str]:
    if settings.token is not None:
        return {"Authorization": f"Bearer {settings.token.reveal()}"}
    if settings.username is None:
        return {}
    password = "" if settings.password is None else settings.password.reveal()
    pair = base64.b64encode(f"{settings.username}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}
