"""Sends alerts to one Alertmanager: when they fire, again while they fire, when they resolve."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable

from monitor.bus.contract import EventBus, Recorded, Start
from monitor.model.alerts import AlertingSnapshot
from monitor.model.clock import Clock
from monitor.model.events import AlertEvent, Event, EventType
from monitor.outputs.alertmanager.sender import JSON, Sender
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.delivery import Delivery, DeliveryMetrics
from monitor.outputs.http import HttpReceiver
from monitor.outputs.settings import receiver_of

_PATH = "/api/v2/alerts"
# The other events change nothing there: Alertmanager reminds and silences by itself.
_SENT_TYPES = frozenset({EventType.ALERT_FIRED, EventType.ALERT_FLAPPING, EventType.ALERT_RESOLVED})


def consumers(settings: AlertmanagerSettings | None) -> list[str]:
    """Return the name of each Alertmanager's consumer."""
    return [] if settings is None else [_name(url) for url in settings.urls]


class AlertmanagerOutput:
    """One Alertmanager. It is sent everything, also where others are sent the same."""

    def __init__(
        self,
        url: str,
        *,
        settings: AlertmanagerSettings,
        bus: EventBus,
        clock: Clock,
        metrics: DeliveryMetrics,
        alerting: Callable[[], AlertingSnapshot],
    ) -> None:
        self.name = _name(url)
        self._bus = bus
        self._receiver = _receiver(url, settings=settings, clock=clock)
        self._sender = Sender(
            self._receiver,
            name=self.name,
            clock=clock,
            resend_seconds=settings.resend_seconds,
            alerting=alerting,
        )
        self._delivery = Delivery(self, bus=bus, clock=clock, metrics=metrics, settings=settings)

    @property
    def is_well(self) -> bool:
        """False while the last request was not answered as it should be."""
        return self._sender.reason is None

    @property
    def status(self) -> str:
        """One sentence for people: whether it answers, or why not."""
        return (
            "no request failed last" if self.is_well else f"does not answer: {self._sender.reason}"
        )

    async def run(self) -> None:
        """Deliver until cancelled; then store the position."""
        await self._bus.subscribe(self.name, start=Start.NEWEST)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sender.run(), name=f"{self.name}: sender")
            tasks.create_task(self._delivery.run(), name=f"{self.name}: delivery")

    async def drain(self, *, timeout_seconds: float) -> bool:
        """Wait until all that the log holds now is acknowledged; False if it took longer."""
        return await self._delivery.drain(timeout_seconds=timeout_seconds)

    # --- what the delivery calls ---

    async def ready(self) -> None:
        await self._receiver.ready()

    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        """Send a fired or resolved alert; None for any other event."""
        event = recorded.event
        if not isinstance(event, AlertEvent) or not self.wants(event):
            return None
        return self._sender.put(event.alert)

    def wants(self, event: Event) -> bool:
        """True where the event is sent to this output."""
        return event.type in _SENT_TYPES


async def try_alertmanager(url: str, *, settings: AlertmanagerSettings, clock: Clock) -> float:
    """Post no alert at all and return how many seconds its clock is ahead of ours.

    Raises:
        OutputError: it would not take alerts either.
    """
    receiver = _receiver(url, settings=settings, clock=clock)
    try:
        await receiver.post(b"[]", headers=JSON)
    finally:
        await receiver.close()
    return receiver.ahead_seconds


def _receiver(url: str, *, settings: AlertmanagerSettings, clock: Clock) -> HttpReceiver:
    return HttpReceiver(
        url.rstrip("/") + _PATH,
        settings=settings,
        clock=clock,
        headers=lambda: _credentials(settings),
        shows_answers=True,
    )


def _name(url: str) -> str:
    return f"alertmanager:{receiver_of(url)}"


def _credentials(settings: AlertmanagerSettings) -> dict[str, str]:
    if settings.token is not None:
        return {"Authorization": f"Bearer {settings.token.reveal()}"}
    if settings.username is None:
        return {}
    password = "" if settings.password is None else settings.password.reveal()
    pair = base64.b64encode(f"{settings.username}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}
