"""Sends alerts to one Alertmanager: when they fire, again while they fire, when they resolve."""

from __future__ import annotations

import asyncio
from typing import Self

import msgspec

from monitor.bus.contract import Recorded
from monitor.model.events import AlertEvent
from monitor.outputs.alertmanager.doctor import check_alertmanagers
from monitor.outputs.alertmanager.posting import receiver_at
from monitor.outputs.alertmanager.sender import Sender
from monitor.outputs.alertmanager.settings import ALERTMANAGER, AlertmanagerSettings
from monitor.outputs.event_output import EventOutput, OutputParts, Run
from monitor.outputs.http import tls_file_problems


class AlertmanagerOutput(EventOutput):
    """One Alertmanager. It is sent everything, also where others are sent the same."""

    record = ALERTMANAGER
    check = staticmethod(check_alertmanagers)

    def __init__(self, settings: AlertmanagerSettings, parts: OutputParts) -> None:
        super().__init__(settings, parts)
        (url,) = settings.urls
        self._receiver = receiver_at(
            url, settings=settings, clock=parts.clock, may_send=parts.bus.may_publish
        )
        self._sender = Sender(
            self._receiver,
            name=self.name,
            clock=parts.clock,
            resend_seconds=settings.resend_seconds,
            alerting=parts.alerting,
            time_of=parts.view.time_of,
        )

    @classmethod
    def configured(cls, settings: AlertmanagerSettings, parts: OutputParts) -> list[Self]:
        return [cls(msgspec.structs.replace(settings, urls=(url,)), parts) for url in settings.urls]

    @staticmethod
    def path_problems(settings: AlertmanagerSettings) -> list[str]:
        return tls_file_problems(settings, settings.urls)

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

    async def _tasks(self) -> dict[str, Run]:
        return {"sender": self._sender.run}

    # --- what the delivery calls ---

    async def ready(self) -> None:
        await self._receiver.ready()

    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        """Send a fired or resolved alert; None for any other event."""
        event = recorded.event
        if not isinstance(event, AlertEvent) or event.type not in self.types:
            return None
        return self._sender.put(event.alert)
