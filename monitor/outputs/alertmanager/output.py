"""Sends alerts to one Alertmanager: when they fire, again while they fire, when they resolve.

Its check posts an empty list, with the credentials and TLS of the settings.
"""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from monitor.bus.contract import Recorded
from monitor.model.checks import Check, CheckLine, ask_all, failed, is_failed, ok
from monitor.model.clock import Clock
from monitor.model.errors import OutputError
from monitor.model.events import AlertEvent
from monitor.outputs.alertmanager.posting import JSON, receiver_at
from monitor.outputs.alertmanager.sender import Sender
from monitor.outputs.alertmanager.settings import ALERTMANAGER, AlertmanagerSettings
from monitor.outputs.certificates import ANSWER_SECONDS, check_tls
from monitor.outputs.event_output import EventOutput, OutputParts, Run
from monitor.outputs.http import tls_file_problems
from monitor.outputs.settings import receiver_of


async def check_alertmanagers(settings: AlertmanagerSettings, *, clock: Clock) -> list[CheckLine]:
    """Post an empty list to each, with the credentials and TLS of the settings."""
    results = await ask_all(
        Check(_subject(url), partial(_check_alertmanager, url, settings, clock=clock))
        for url in settings.urls
    )
    return [line for lines in results for line in lines]


def _subject(url: str) -> str:
    return f"alertmanager {receiver_of(url)}"


async def _check_alertmanager(
    url: str, settings: AlertmanagerSettings, *, clock: Clock
) -> list[CheckLine]:
    subject = _subject(url)
    hasty = msgspec.structs.replace(
        settings, timeout_seconds=min(settings.timeout_seconds, ANSWER_SECONDS)
    )
    tls = await check_tls(subject, url, settings, clock=clock)
    if is_failed(tls):
        return tls  # which is also why no alert is accepted
    try:
        ahead = await _post_nothing(url, settings=hasty, clock=clock)
    except OutputError as exc:
        hint = "see that it runs, and check urls, username, password and token in [alertmanager]"
        return [failed(subject, f"accepts no alerts: {exc}", hint), *tls]
    clocks = (
        f"; its clock differs by {ahead:+.0f} s from ours, which is allowed for" if ahead else ""
    )
    return [ok(subject, f"accepted an empty list of alerts{clocks}"), *tls]


async def _post_nothing(url: str, *, settings: AlertmanagerSettings, clock: Clock) -> float:
    """Post no alert at all and return how many seconds its clock is ahead of ours.

    Raises:
        OutputError: it would not take alerts either.
    """
    receiver = receiver_at(url, settings=settings, clock=clock)
    try:
        await receiver.post(b"[]", headers=JSON)
    finally:
        await receiver.close()
    return receiver.ahead_seconds


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
