"""Posts to Alertmanager: the URL with its credentials, and the body, alerts as of now."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.model.alert_texts import texts_of
from monitor.model.alerts import Alert, AlertState
from monitor.model.clock import Clock
from monitor.model.lease_check import MaySend
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.http import HttpReceiver

JSON = {"Content-Type": "application/json"}
_PATH = "/api/v2/alerts"
_LAPSES_AFTER = 4  # times the interval of resending, as Prometheus does it


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


class PostableAlert(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One element of the list that ``POST /api/v2/alerts`` takes."""

    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: datetime
    ends_at: datetime
    generator_url: str | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name="generatorURL"
    )


def body_of(
    alerts: Iterable[Alert],
    *,
    now: datetime,
    resend_seconds: float,
    time_of: Callable[[Alert], datetime],
) -> bytes:
    """Return the body with the present state of these alerts; ``now`` is its wall time.

    Texts read as of ``time_of``: the present by the clock of what an alert is about.

    A firing alert ends in the future, and lapses there unless it is sent again in time. The
    instants of an alert are the workspace's, whose clock may be ahead of the Alertmanager's: an
    end in the future would be none, so nothing lies after our now but such a lapse.
    """
    lapses_at = now + timedelta(seconds=_LAPSES_AFTER * resend_seconds)
    return msgspec.json.encode(
        [
            _postable(alert, texts_of(alert, time_of(alert)), now=now, lapses_at=lapses_at)
            for alert in alerts
        ]
    )


def _postable(
    alert: Alert, texts: dict[str, str], *, now: datetime, lapses_at: datetime
) -> PostableAlert:
    starts_at = min(alert.starts_at, now)
    ends_at = lapses_at
    if alert.state is AlertState.RESOLVED:
        # Never before the start, which Alertmanager refuses.
        ends_at = max(starts_at, min(alert.ends_at or now, now))
    return PostableAlert(
        labels=alert.labels,
        annotations=_annotations(alert, texts),
        starts_at=starts_at,
        ends_at=ends_at,
        generator_url=_address(alert),
    )


def _annotations(alert: Alert, texts: dict[str, str]) -> dict[str, str]:
    annotations = dict(texts)
    if alert.run is not None:
        annotations.setdefault("run", alert.run.id)
    if alert.is_flapping:
        annotations.setdefault("flapping", "true")
    if alert.preexisting:
        annotations.setdefault("preexisting", "true")
    if alert.over_when_seen:
        annotations.setdefault("over_when_seen", "true")
    if (by := alert.acknowledged) is not None:
        annotations.setdefault("acknowledged_by", by.author)
    if alert.muted_by:
        # Ours only: mail stops where the silence is one of Alertmanager's.
        annotations.setdefault("silenced_by", ", ".join(alert.muted_by))
    return annotations


def _address(alert: Alert) -> str | msgspec.UnsetType:
    url = alert.facts.get("url")
    is_address = isinstance(url, str) and url.startswith(("http://", "https://"))
    return url if is_address and isinstance(url, str) else msgspec.UNSET
