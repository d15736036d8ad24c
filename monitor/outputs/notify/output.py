"""Sends alerts, and runs by choice, to one channel of people: grouped, in order, at least once.

`send` only queues. The task ``worker`` sends one message at a time; a group is sent when it is due,
and its events are answered together. After a failure all that waits is given back to the delivery,
which sends it again after a wait, so that no end comes before its start.

While the channel is muted nothing is queued. At the end of that time the worker reads what the log
holds since its begin and since what was not taken by then, and sends what it comes to as one
message to each recipient; from where on is stored, so that a restart loses none of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from monitor.bus.contract import EventBus, Recorded, Start, Step
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.checks import CheckLine, failed, ok, warning
from monitor.model.clock import Clock
from monitor.model.errors import (
    ConfigurationError,
    OutputError,
    OutputRefusedError,
    OutputUnavailableError,
)
from monitor.model.events import AlertEvent, Event, EventType, RunEvent, WorkspaceEvent
from monitor.model.mute_windows import is_muted, parse_mute_window
from monitor.model.notifying import STARTS, MessagePreview
from monitor.model.waits import WakeSignal
from monitor.outputs.certificates import ANSWER_SECONDS
from monitor.outputs.event_output import EventOutput, OutputParts, Run, give_answer
from monitor.outputs.notify.composer import newest_of
from monitor.outputs.notify.grouping import Grouping
from monitor.outputs.notify.recipients import CHANNEL, Recipient, owner_of
from monitor.outputs.notify.selection import Chosen, Selection
from monitor.outputs.notify.sender import MessageSender
from monitor.outputs.notify.service import Service
from monitor.outputs.notify.settings import (
    NOTIFY,
    ChannelSettings,
    GroupField,
    NotifySettings,
    RecipientKind,
)
from monitor.outputs.notify.templates import Templates

_MUTED_AFTER = "muted after"  # key in the state: the position at which the channel was muted
_CLOCK_CHECK_SECONDS = 15.0  # how often a channel with times of mute reads the clock
_READ_AT_ONCE = 500
_STORE_SECONDS = 10.0
_REMEMBERED = 10_000  # alerts whose last message is remembered, with its time
_WHILE_MUTED = "While this channel was muted:"


class _Waiting(Struct, frozen=True):
    """One event that is to be part of a message."""

    event: Chosen
    answer: asyncio.Future[None]
    recipient: Recipient


class ChannelOutput(EventOutput):
    """One channel."""

    record = NOTIFY

    def __init__(self, settings: ChannelSettings, parts: OutputParts) -> None:
        super().__init__(settings, parts)
        self._settings = settings
        self._view = parts.view
        self._selection = Selection(settings, parts.view)
        self._sender = MessageSender(settings, parts)
        self._mute = tuple(parse_mute_window(text, settings.days_off) for text in settings.mute)
        self._grouping: Grouping[tuple[str, ...], _Waiting] = Grouping(settings.group_wait_seconds)
        self._wake = WakeSignal(parts.clock)
        self._sent_at: BoundedMemory[str, float] = BoundedMemory(_REMEMBERED)  # monotonic
        self._muted_after: int | None = None  # None: not muted
        self._subscribed = 0  # position from which on this run delivers
        self._newest = 0  # position that `send` was called with last
        self._is_failing = False  # until the delivery starts again
        self._is_hastened = False  # nothing waits for its group any more

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
        return self._sender.reason is None

    @property
    def status(self) -> str:
        """One sentence for people: whether it takes messages, or why not."""
        if self._sender.reason is not None:
            return f"takes no messages: {self._sender.reason}"
        return "muted now" if self._muted_after is not None else "no message failed last"

    def why_not_taken(self, event: Event) -> str | None:
        return self._selection.why_not(event)

    async def preview(self, event: AlertEvent) -> MessagePreview:
        """Return the message that would be sent about the event now, or why none would."""
        why_not = self._selection.why_not(event)
        if why_not is None and is_muted(self._mute, self._clock.now()):
            why_not = f"the channel is muted now: {'; '.join(self._settings.mute)}"
        if why_not is None and not self._sender.is_open:
            why_not = "the channel has not started yet"
        if why_not is not None:
            return MessagePreview(channel=self._settings.name, why_not=why_not)
        recipient = self._recipient_of(event)
        message = await self._sender.written([event], recipient=recipient)
        return MessagePreview(
            channel=self._settings.name,
            to=recipient.address,
            form=message.form,
            subject=message.subject,
            text=message.body,
        )

    async def _tasks(self) -> dict[str, Run]:
        await self._sender.open()
        self._newest = await self._bus.subscribe(self.name, start=Start.NEWEST)
        self._subscribed = self._newest
        stored = (await self._bus.consumer_state(self.name)).get(_MUTED_AFTER)
        self._muted_after = None if stored is None else int(stored)
        return {"worker": self._work}

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
        if recorded.event.type is EventType.ALERT_ACKNOWLEDGED:
            # The reminder that may follow its end is no repetition.
            self._sent_at.forget(recorded.event.subject)
        event = self._chosen(recorded.event)
        if event is None or self._muted_after is not None:
            return None
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_failing:
            reason = self._sender.reason or "another message failed"
            answer.set_exception(OutputUnavailableError(reason))
            return answer
        recipient = self._recipient_of(event)
        key = (recipient.address or "", *_group_of(event, self._settings.group_by))
        waiting = _Waiting(event, answer, recipient)
        self._grouping.add(key, waiting, at=self._clock.monotonic())
        if self._is_hastened:
            self._grouping.hasten()
        self._wake.set()
        return answer

    def _chosen(self, event: Event) -> Chosen | None:
        chosen = self._selection.takes(event)
        if chosen is None or chosen.type is not EventType.ALERT_REMINDED:
            return chosen
        sent_at = self._sent_at.get(chosen.subject)
        is_early = (
            sent_at is not None
            and self._clock.monotonic() - sent_at < self._settings.repeat_seconds
        )
        return None if is_early else chosen

    def _recipient_of(self, event: Chosen) -> Recipient:
        if self._settings.to is RecipientKind.URL or isinstance(event, WorkspaceEvent):
            return CHANNEL
        return owner_of(event, self._view, self._settings.owner_domains)

    # --- the worker ---

    async def _work(self) -> None:
        while True:
            # Its times may have been removed since it was muted.
            if self._mute or self._muted_after is not None:
                await self._mute_or_unmute()
            while waiting := self._grouping.take(at=self._clock.monotonic()):
                await self._send_group(waiting)
            await self._wake.wait(self._seconds_to_wait())

    def _seconds_to_wait(self) -> float:
        due = self._grouping.due_at()
        longest = _CLOCK_CHECK_SECONDS if self._mute else self._settings.wait_seconds
        if due is None:
            return longest
        return min(longest, max(0.0, due - self._clock.monotonic()))

    async def _send_group(self, waiting: Sequence[_Waiting]) -> None:
        """Send what is due; all of it goes to one recipient."""
        unsent = list(waiting)
        for events in self._sender.parts_of([member.event for member in waiting]):
            part, unsent = unsent[: len(events)], unsent[len(events) :]
            try:
                await self._sender.send(events, recipient=part[0].recipient)
            except OutputRefusedError as exc:
                self._answer_all(part, exc)
            except OutputUnavailableError as exc:
                self._is_failing = True
                self._answer_all([*part, *unsent, *self._grouping.take_all()], exc)
                return
            else:
                for event in events:
                    if event.type is EventType.ALERT_ACKNOWLEDGED:
                        self._sent_at.forget(event.subject)
                    else:
                        self._sent_at.put(event.subject, self._clock.monotonic())
                self._answer_all(part, None)

    @staticmethod
    def _answer_all(waiting: Sequence[_Waiting], failure: OutputError | None) -> None:
        for member in waiting:
            give_answer(member.answer, failure)

    # --- times without messages ---

    async def _mute_or_unmute(self) -> None:
        is_muted_now = is_muted(self._mute, self._clock.now())
        if is_muted_now and self._muted_after is None:
            # What waits, and what failed so far, is part of what is sent at the end.
            after = max(self._subscribed, self._delivery.position)
            await self._store_muted(str(after).encode())
            self._muted_after = after
            self._answer_all(self._grouping.take_all(), None)
        elif not is_muted_now and self._muted_after is not None:
            after, self._muted_after = self._muted_after, None
            # What is queued from now on waits until this is sent.
            missed = await _missed(self._bus, self._selection, after=after, until=self._newest)
            await self._send_missed(missed)
            await self._store_muted(None)

    async def _send_missed(self, missed: Sequence[Chosen]) -> None:
        by_address: dict[str | None, list[tuple[Chosen, Recipient]]] = {}
        for event in missed:
            recipient = self._recipient_of(event)
            by_address.setdefault(recipient.address, []).append((event, recipient))
        for group in by_address.values():
            (_, recipient), *_ = group
            for events in self._sender.parts_of([event for event, _ in group]):
                await self._sender.send_at_last(events, recipient=recipient, note=_WHILE_MUTED)

    async def _store_muted(self, value: bytes | None) -> None:
        step = Step(consumer=self.name, state={_MUTED_AFTER: value})
        await self._bus.advance(step, timeout_seconds=_STORE_SECONDS)


async def _missed(bus: EventBus, selection: Selection, *, after: int, until: int) -> list[Chosen]:
    """Return what is to be said of the events between two positions of the log.

    That is the newest event of each subject. Of an alert that is over, that is sent where the
    subject fired before them: their first event of it is no start then.
    """
    newest: dict[str, Chosen] = {}
    fired_before: set[str] = set()
    while after < until:
        recorded = await bus.events(after=after, limit=min(_READ_AT_ONCE, until - after))
        if not recorded:
            break
        after = recorded[-1].position
        for event in (selection.takes(stored.event) for stored in recorded):
            if event is None:
                continue
            if event.subject not in newest and event.type not in STARTS:
                fired_before.add(event.subject)
            newest[event.subject] = newest_of(newest.get(event.subject), event)
    return [
        event
        for event in newest.values()
        if event.type is not EventType.ALERT_RESOLVED or event.subject in fired_before
    ]


def _group_of(event: Chosen, fields: Sequence[str]) -> tuple[str, ...]:
    words = _group_words(event)
    return tuple(words.get(GroupField(field), event.type.value) for field in fields)


def _group_words(event: Chosen) -> dict[GroupField, str]:
    """Return what stays the same as long as an alert lasts; a run has no rule and severity."""
    if isinstance(event, AlertEvent):
        alert = event.alert
        pipeline, kind = alert.pipeline, alert.kind
        own = {
            GroupField.RULE: alert.name,
            GroupField.SEVERITY: alert.severity.value,
            GroupField.ALERT: alert.fingerprint,
        }
    elif isinstance(event, RunEvent):
        pipeline, kind = event.run.pipeline, event.run.key.kind
        own = {GroupField.ALERT: event.subject}
    else:
        return {GroupField.ALERT: event.id}
    return {
        **own,
        GroupField.WORKSPACE: event.workspace,
        GroupField.KIND: kind or "",
        GroupField.PIPELINE: "" if pipeline is None else pipeline.id,
    }


async def _check_channel(settings: ChannelSettings) -> CheckLine:
    subject = f"{NOTIFY.section} {settings.name}"
    try:
        service = await asyncio.to_thread(
            Service, settings.url, timeout_seconds=settings.timeout_seconds
        )
    except ConfigurationError as exc:
        return failed(subject, f"url {exc}")
    if service.address is None:
        hint = f"send a message with: dataprep-monitor notify test {settings.name}"
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
