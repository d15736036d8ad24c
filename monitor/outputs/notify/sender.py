"""Sends one message at a time to the service of a channel, in a thread of the channel's own.

Services that hang would fill the threads that all others share. A message that is under way when
its run is cancelled goes on; the next run waits for its end, so that none overtakes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar
from zoneinfo import ZoneInfo

import structlog

from monitor.model.errors import (
    BusUnavailableError,
    ConfigurationError,
    OutputRefusedError,
    OutputUnavailableError,
)
from monitor.model.events import REPORT, WorkspaceEvent
from monitor.model.lease_check import LEASE_UNCERTAIN
from monitor.model.waits import backoff_seconds
from monitor.outputs.event_output import OutputParts
from monitor.outputs.notify.channel_metrics import ChannelMetrics
from monitor.outputs.notify.composer import Composer, Content
from monitor.outputs.notify.lines import one_line
from monitor.outputs.notify.recipients import CHANNEL, Recipient
from monitor.outputs.notify.selection import Chosen
from monitor.outputs.notify.service import Message, Service
from monitor.outputs.notify.settings import ChannelSettings
from monitor.outputs.notify.templates import Templates

log = structlog.get_logger()

T = TypeVar("T")

_REQUESTS = 3


class MessageSender:
    """What a channel sends by; `open` it first."""

    def __init__(self, settings: ChannelSettings, parts: OutputParts) -> None:
        self._settings = settings
        self._clock = parts.clock
        self._may_publish = parts.bus.may_publish
        self._report = parts.report
        self._make_composer = partial(
            Composer,
            view=parts.view,
            alerting=parts.alerting,
            clock=parts.clock,
            zone=ZoneInfo(settings.time_zone),
            page_url=parts.page_url,
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"channel {settings.name}")
        self.is_open = False
        self.reason: str | None = None  # why the last message was not taken
        messages = ChannelMetrics.of(parts.registry).messages
        self._counters = {
            result: messages.labels(settings.name, result)
            for result in ("sent", "failed", "refused")
        }

    async def open(self) -> None:
        """Load the library and the templates, which takes a while."""
        self._service, self._composer = await self._in_thread(self._opened)
        self.is_open = True

    async def _in_thread(self, call: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    def _opened(self) -> tuple[Service, Composer]:
        service = Service(self._settings.url, timeout_seconds=self._settings.timeout_seconds)
        return service, self._make_composer(templates=Templates(self._settings.templates))

    def parts_of(self, events: Sequence[Chosen]) -> list[Sequence[Chosen]]:
        """Return the events of each message, in their order.

        A pager has an incident for each alert, and a report is a message of its own.
        """
        if self._service.has_incidents:
            return [[event] for event in events]
        parts: list[list[Chosen]] = []
        for event in events:
            is_report = isinstance(event, WorkspaceEvent)
            if is_report or not parts or isinstance(parts[-1][0], WorkspaceEvent):
                parts.append([])
            parts[-1].append(event)
        return list(parts)

    async def written(self, events: Sequence[Chosen], *, recipient: Recipient) -> Message:
        """Return the message that `send` would send; sends nothing."""
        content = await self._content(events, recipient.why)
        # Not in the channel's thread, where a service may be waited for.
        return await asyncio.to_thread(self._composer.written, content, self._service)

    async def send(
        self,
        events: Sequence[Chosen],
        *,
        recipient: Recipient = CHANNEL,
        note: str | None = None,
    ) -> None:
        """Send one message about events in their order.

        What is refused for the address of an owner goes to that of the channel, and says why.

        Raises:
            OutputError: it was not taken.
        """
        notes = " ".join(text for text in (recipient.why, note) if text)
        content = await self._content(events, notes or None)
        try:
            answer = await self._answered(content, recipient.address)
        except OutputRefusedError as exc:
            if recipient.address is not None:
                why = f"Its owner {recipient.address} gets no mail: {exc}"
                await self.send(events, recipient=Recipient(why=one_line(why)), note=note)
                return
            self._counters["refused"].inc()
            self.reason = None
            raise
        except OutputUnavailableError as exc:
            self._counters["failed"].inc()
            if self.reason is None:
                log.warning("message not sent", channel=self._settings.name, reason=str(exc))
            self.reason = str(exc)
            raise
        self._counters["sent"].inc()
        self.reason = None
        log.info("message sent", channel=self._settings.name, about=len(events), answer=answer)

    async def _content(self, events: Sequence[Chosen], note: str | None) -> Content:
        first = events[0]
        if not isinstance(first, WorkspaceEvent):
            about = [event for event in events if not isinstance(event, WorkspaceEvent)]
            return self._composer.content(about, note=note)
        name, due = first.what.removeprefix(f"{REPORT}:"), first.occurred_at or first.recorded_at
        try:
            report = await self._report(name, due)
        except ConfigurationError as exc:
            raise OutputRefusedError(str(exc)) from exc
        except BusUnavailableError as exc:
            raise OutputUnavailableError(f"the report cannot be computed: {exc}") from exc
        return self._composer.report_content(first, report)

    async def _answered(self, content: Content, address: str | None) -> str:
        # A service takes several requests for a message, such as one for each address.
        seconds = _REQUESTS * self._settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._in_thread(self._sent, content, address)
        except TimeoutError as exc:
            raise OutputUnavailableError(f"no answer within {seconds:g} s") from exc

    def _sent(self, content: Content, address: str | None) -> str:
        message = self._composer.written(content, self._service)
        if not self._may_publish():
            raise OutputUnavailableError(LEASE_UNCERTAIN)
        return self._service.send(message, to=address)

    async def send_at_last(
        self, events: Sequence[Chosen], *, recipient: Recipient, note: str
    ) -> None:
        """Send one message, again and again until it is taken or refused for good."""
        failures = 0
        while True:
            try:
                await self.send(events, recipient=recipient, note=note)
            except OutputRefusedError as exc:
                log.warning("message refused", channel=self._settings.name, reason=str(exc))
            except OutputUnavailableError:
                failures += 1
                await self._clock.sleep(
                    backoff_seconds(
                        failures,
                        base_seconds=self._settings.backoff_base_seconds,
                        cap_seconds=self._settings.backoff_cap_seconds,
                    )
                )
                continue
            return
