"""Sends alerts, and runs by choice, to one channel of people: grouped, in order, at least once.

`send` only queues. The task ``worker`` sends one message at a time, in a thread; a group is sent
when it is due, and its events are answered together. After a failure all that waits is given back
to the delivery, which sends it again after a wait, so that no end comes before its start.

While the channel is muted nothing is queued. At the end of that time the worker reads what the log
holds since its begin, and sends what it comes to as one message; from where on is stored, so that
a restart loses none of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from zoneinfo import ZoneInfo

import structlog
from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter

from monitor.bus.contract import Recorded, Start, Step
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.checks import CheckLine, failed, ok, warning
from monitor.model.clock import Clock
from monitor.model.errors import (
    ConfigurationError,
    OutputError,
    OutputRefusedError,
    OutputUnavailableError,
)
from monitor.model.events import AlertEvent, Event, EventType
from monitor.model.mute_windows import is_muted, parse_mute_window
from monitor.model.registries import made_once, process_registry
from monitor.model.waits import WakeSignal, backoff_seconds
from monitor.outputs.certificates import ANSWER_SECONDS
from monitor.outputs.event_output import EventOutput, OutputParts, Run, give_answer
from monitor.outputs.leases import LEASE_UNCERTAIN
from monitor.outputs.notify.composer import Composer, Content
from monitor.outputs.notify.grouping import Grouping
from monitor.outputs.notify.selection import Selection, Sendable
from monitor.outputs.notify.service import Service
from monitor.outputs.notify.settings import (
    NOTIFY,
    ChannelSettings,
    GroupField,
    NotifySettings,
)
from monitor.outputs.notify.templates import Templates

log = structlog.get_logger()

_MUTED_AFTER = "muted after"  # key in the state: the position at which the channel was muted
_CLOCK_CHECK_SECONDS = 15.0  # how often a channel with times of mute looks at the clock
_READ_AT_ONCE = 500
_STORE_SECONDS = 10.0
_REMEMBERED = 10_000  # alerts whose last message is remembered, with its time


class ChannelMetrics:
    """The series of all channels; get them by `of`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.messages = Counter(
            "dataprep_monitor_channel_messages",
            "Messages to channels by result; one may be about many alerts.",
            ["channel", "result"],
            registry=registry,
        )

    @staticmethod
    def of(registry: CollectorRegistry) -> ChannelMetrics:
        """Return those of the process, made at the first call."""
        return made_once(ChannelMetrics, process_registry(registry))


class _Waiting(Struct, frozen=True):
    """One event that is to be part of a message."""

    event: Sendable
    answer: asyncio.Future[None]


class ChannelOutput(EventOutput):
    """One channel."""

    record = NOTIFY

    def __init__(self, settings: ChannelSettings, parts: OutputParts) -> None:
        super().__init__(settings, parts)
        self._settings = settings
        self._selection = Selection(settings, parts.view)
        self._alerting = parts.alerting
        self._composer_of = partial(
            Composer,
            view=parts.view,
            alerting=parts.alerting,
            clock=parts.clock,
            zone=ZoneInfo(settings.time_zone),
            page_url=parts.page_url,
        )
        self._mute = tuple(parse_mute_window(text) for text in settings.mute)
        self._grouping: Grouping[tuple[str, ...], _Waiting] = Grouping(settings.group_wait_seconds)
        self._wake = WakeSignal(parts.clock)
        self._sent_at: BoundedMemory[str, float] = BoundedMemory(_REMEMBERED)  # monotonic
        self._muted_after: int | None = None  # None: not muted
        self._newest = 0  # position that `send` was called with last
        self._reason: str | None = None  # why the last message was not taken
        self._is_failing = False  # until the delivery starts again
        self._is_hastened = False  # nothing waits for its group any more
        metrics = ChannelMetrics.of(parts.registry)
        self._counters = {
            result: metrics.messages.labels(settings.name, result)
            for result in ("sent", "failed", "refused")
        }

    @staticmethod
    def path_problems(settings: ChannelSettings) -> list[str]:
        try:
            Templates(settings.templates)
        except ConfigurationError as exc:
            return [f"templates: {problem}" for problem in exc.problems]
        return []

    @staticmethod
    async def check(settings: NotifySettings, *, clock: Clock) -> list[CheckLine]:  # noqa: ARG004 - nothing has a date
        """Connect to each service, and send nothing."""
        return [await _check_channel(channel) for channel in settings.channels]

    @property
    def is_well(self) -> bool:
        """False while the last message was not taken."""
        return self._reason is None

    @property
    def status(self) -> str:
        """One sentence for people: whether it takes messages, or why not."""
        if self._reason is not None:
            return f"takes no messages: {self._reason}"
        return "muted now" if self._muted_after is not None else "no message failed last"

    async def _tasks(self) -> dict[str, Run]:
        service, composer = await asyncio.to_thread(self._open)
        self._newest = await self._bus.subscribe(self.name, start=Start.NEWEST)
        stored = (await self._bus.consumer_state(self.name)).get(_MUTED_AFTER)
        self._muted_after = None if stored is None else int(stored)
        return {"worker": partial(self._work, service, composer)}

    def _open(self) -> tuple[Service, Composer]:
        """Load the library and the templates, which takes a while."""
        service = Service(self._settings.url, timeout_seconds=self._settings.timeout_seconds)
        return service, self._composer_of(templates=Templates(self._settings.templates))

    async def _close(self) -> None:
        self._answer_all(self._grouping.take_all(), OutputUnavailableError("stopped"))

    async def finish(self, *, timeout_seconds: float) -> None:
        """Send what waits for its group at once, and nothing more; see `EventOutput.finish`."""
        self._hasten()
        await super().finish(timeout_seconds=timeout_seconds)

    async def drain(self, *, timeout_seconds: float) -> bool:
        """Wait likewise until all that the log holds now is sent."""
        self._hasten()
        return await super().drain(timeout_seconds=timeout_seconds)

    def _hasten(self) -> None:
        self._is_hastened = True
        self._grouping.hasten()
        self._wake.set()

    # --- what the delivery calls ---

    async def ready(self) -> None:
        """Return at once: whether the service takes something, only a message shows."""
        self._is_failing = False

    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        """Queue one event; None where the channel does not send it, or not now."""
        self._newest = max(self._newest, recorded.position)
        event = self._chosen(recorded.event)
        if event is None or self._muted_after is not None:
            return None
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_failing:
            answer.set_exception(OutputUnavailableError(self._reason or "another message failed"))
            return answer
        key = self._group_of(event)
        self._grouping.add(key, _Waiting(event, answer), at=self._clock.monotonic())
        if self._is_hastened:
            self._grouping.hasten()
        self._wake.set()
        return answer

    def _chosen(self, event: Event) -> Sendable | None:
        chosen = self._selection.takes(event)
        if chosen is None or chosen.type is not EventType.ALERT_REMINDED:
            return chosen
        sent_at = self._sent_at.get(chosen.subject)
        is_early = (
            sent_at is not None
            and self._clock.monotonic() - sent_at < self._settings.repeat_seconds
        )
        return None if is_early else chosen

    def _group_of(self, event: Sendable) -> tuple[str, ...]:
        return tuple(_group_word(event, field) for field in self._settings.group_by)

    # --- the worker ---

    async def _work(self, service: Service, composer: Composer) -> None:
        while True:
            if self._mute:
                await self._mute_or_unmute(service, composer)
            while waiting := self._grouping.take(at=self._clock.monotonic()):
                await self._send_group(waiting, service, composer)
            await self._wake.wait(self._seconds_to_wait())

    def _seconds_to_wait(self) -> float:
        due = self._grouping.due_at()
        longest = _CLOCK_CHECK_SECONDS if self._mute else self._settings.wait_seconds
        if due is None:
            return longest
        return min(longest, max(0.0, due - self._clock.monotonic()))

    async def _send_group(
        self, waiting: Sequence[_Waiting], service: Service, composer: Composer
    ) -> None:
        # A pager opens and resolves an incident for each alert.
        parts = [[member] for member in waiting] if service.has_incidents else [waiting]
        for part in parts:
            try:
                await self._deliver(
                    composer.content([member.event for member in part]), service, composer
                )
            except OutputRefusedError as exc:
                self._answer_all(part, exc)
            except OutputUnavailableError as exc:
                self._is_failing = True
                self._answer_all([*waiting, *self._grouping.take_all()], exc)
                return
            else:
                for member in part:
                    self._sent_at.put(member.event.subject, self._clock.monotonic())
                self._answer_all(part, None)

    async def _deliver(self, content: Content, service: Service, composer: Composer) -> None:
        """Send one message.

        Raises:
            OutputError: it was not taken.
        """
        try:
            answer = await asyncio.to_thread(self._sent, content, service, composer)
        except OutputRefusedError:
            self._counters["refused"].inc()
            self._reason = None
            raise
        except OutputUnavailableError as exc:
            self._counters["failed"].inc()
            if self._reason is None:
                log.warning("message not sent", channel=self._settings.name, reason=str(exc))
            self._reason = str(exc)
            raise
        self._counters["sent"].inc()
        self._reason = None
        log.info(
            "message sent",
            channel=self._settings.name,
            alerts=len(content.lines),
            answer=answer,
        )

    def _sent(self, content: Content, service: Service, composer: Composer) -> str:
        message = composer.written(content, service.form)
        if not self._bus.may_publish():
            raise OutputUnavailableError(LEASE_UNCERTAIN)
        return service.send(message)

    @staticmethod
    def _answer_all(waiting: Sequence[_Waiting], failure: OutputError | None) -> None:
        for member in waiting:
            give_answer(member.answer, failure)

    # --- times without messages ---

    async def _mute_or_unmute(self, service: Service, composer: Composer) -> None:
        is_muted_now = is_muted(self._mute, self._clock.now())
        if is_muted_now and self._muted_after is None:
            await self._store_muted(str(self._newest).encode())
            self._muted_after = self._newest
        elif not is_muted_now and self._muted_after is not None:
            after, self._muted_after = self._muted_after, None
            # What is queued from now on waits until this is sent.
            await self._send_missed(after, until=self._newest, service=service, composer=composer)
            await self._store_muted(None)

    async def _store_muted(self, value: bytes | None) -> None:
        step = Step(consumer=self.name, state={_MUTED_AFTER: value})
        await self._bus.advance(step, timeout_seconds=_STORE_SECONDS)

    async def _send_missed(
        self, after: int, *, until: int, service: Service, composer: Composer
    ) -> None:
        """Send what happened while the channel was muted, as far as it still matters."""
        missed = await self._missed(after, until=until)
        if not missed:
            return
        note = "While this channel was muted:"
        parts = [[event] for event in missed] if service.has_incidents else [missed]
        for part in parts:
            content = composer.content(part, note=note)
            await self._deliver_at_last(content, service, composer)

    async def _missed(self, after: int, *, until: int) -> list[Sendable]:
        """Return the newest event of each alert that fires, or was known to before."""
        newest: dict[str, Sendable] = {}
        begun: set[str] = set()
        while after < until:
            some = await self._bus.events(after=after, limit=min(_READ_AT_ONCE, until - after))
            if not some:
                break
            after = some[-1].position
            for event in (self._selection.takes(recorded.event) for recorded in some):
                if event is not None:
                    newest[event.subject] = event
                    if isinstance(event, AlertEvent) and event.type is not EventType.ALERT_RESOLVED:
                        begun.add(event.subject)
        # What began and ended meanwhile is over; an end alone closes what was known before.
        return [
            event
            for event in newest.values()
            if event.type is not EventType.ALERT_RESOLVED or event.subject not in begun
        ]

    async def _deliver_at_last(
        self, content: Content, service: Service, composer: Composer
    ) -> None:
        """Send one message, again and again until it is taken or refused for good."""
        failures = 0
        while True:
            with suppress(OutputUnavailableError):
                try:
                    await self._deliver(content, service, composer)
                except OutputRefusedError as exc:
                    log.warning("message refused", channel=self._settings.name, reason=str(exc))
                return
            failures += 1
            await self._clock.sleep(
                backoff_seconds(
                    failures,
                    base_seconds=self._settings.backoff_base_seconds,
                    cap_seconds=self._settings.backoff_cap_seconds,
                )
            )


def _group_word(event: Sendable, field: str) -> str:
    if field == GroupField.WORKSPACE:
        return event.workspace
    if not isinstance(event, AlertEvent):
        pipeline, kind = event.run.pipeline, event.run.key.kind.value
        words = {GroupField.KIND: kind, GroupField.PIPELINE: pipeline and pipeline.id}
        return words.get(GroupField(field)) or event.type.value
    alert = event.alert
    words = {
        GroupField.RULE: alert.name,
        GroupField.SEVERITY: alert.severity.value,
        GroupField.KIND: alert.kind,
        GroupField.PIPELINE: alert.pipeline and alert.pipeline.id,
        GroupField.ALERT: alert.fingerprint,
    }
    return words[GroupField(field)] or ""


async def _check_channel(settings: ChannelSettings) -> CheckLine:
    subject = f"{NOTIFY.section} {settings.name}"
    try:
        service = await asyncio.to_thread(
            Service, settings.url, timeout_seconds=settings.timeout_seconds
        )
    except ConfigurationError as exc:
        return failed(subject, f"url {exc}")
    if service.address is None:
        hint = f"send one with: dataprep-monitor notify test {settings.name}"
        return warning(subject, f"{service.name}: only a message shows whether it answers", hint)
    host, port = service.address
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except OSError as exc:
        hint = "see that the service runs, and correct the url of the channel"
        return failed(subject, f"{service.name}: no connection: {str(exc) or 'no answer'}", hint)
    writer.close()
    return ok(subject, f"{service.name}: accepts connections; nothing was sent")
