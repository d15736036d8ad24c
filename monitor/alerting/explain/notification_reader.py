"""Finds out who was notified of alerts: from the log and the positions of the outputs, when asked.

An alert itself only knows when an event of it was made. Whether an output took that is nowhere
written down: it follows from how far each output has come.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

import msgspec
from msgspec import Struct

from monitor.alerting.explain.explanation import (
    ExplanationStage,
    ExplanationStep,
    StepOutcome,
    instant,
)
from monitor.bus.contract import DeadLetter, Recorded, StoredShard
from monitor.model.alerts import OPENINGS, Alert, alert_event_id
from monitor.model.events import AlertEvent, Event, EventType
from monitor.model.notifying import (
    NOTIFYING,
    NotificationStatus,
    OutputTypes,
    WhyNotTaken,
    always_taken,
    why_not_notified,
)

BEGAN_AT = "began at"  # key in the state of an output: when it was added

_DEAD_LETTERS = 1_000
_REMINDERS_READ = 5
_Identity = tuple[str, datetime]  # fingerprint and start
_instants = msgspec.json.Decoder(datetime)


class OutputProgress(Struct, frozen=True, kw_only=True):
    """An output, how far it has come, and what it takes.

    ``began_at``: what was recorded before it has not gone there; None: it was there all along.
    """

    name: str
    position: int
    types: Collection[EventType]
    began_at: datetime | None = None
    why_not_taken: Callable[[Event], str | None] = partial(always_taken, "")
    dead_letters: tuple[DeadLetter, ...] = ()


class NotificationReader:
    """Compares the events of alerts with what the outputs of one shard have taken."""

    def __init__(
        self,
        *,
        bus: StoredShard,
        outputs: Callable[[], OutputTypes],
        why_not_taken: WhyNotTaken = always_taken,
    ) -> None:
        self._bus = bus
        self._why_not_taken = why_not_taken
        self._outputs = outputs
        self._began_at: dict[str, datetime | None] = {}  # by output; it never changes

    def why_not_notified(self) -> str | None:
        """Return why no alert reaches anybody; None where an output takes alerts."""
        return why_not_notified(self._outputs())

    async def of(self, alerts: Sequence[Alert]) -> list[NotificationStatus]:
        """Return what was taken of each alert, in their order.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        if (why := self.why_not_notified()) is not None:
            return [
                NotificationStatus(why_not=why if alert.is_notified else None) for alert in alerts
            ]
        emitted = [alert for alert in alerts if alert.is_notified]
        if not emitted:
            return [NotificationStatus() for _ in alerts]
        ids = {event_id for alert in emitted for event_id in _event_ids(alert)}
        events: defaultdict[_Identity, list[Recorded]] = defaultdict(list)
        for recorded in (await self._bus.events_by_id(ids)).values():
            if isinstance(event := recorded.event, AlertEvent):
                events[event.alert.fingerprint, event.alert.starts_at].append(recorded)
        outputs = [output for output in await self.progress() if NOTIFYING & {*output.types}]
        return [
            _notification(alert, events[alert.fingerprint, alert.starts_at], outputs)
            if alert.is_notified
            else NotificationStatus()
            for alert in alerts
        ]

    async def progress(self) -> list[OutputProgress]:
        """Return the outputs that have a position, and what they have not delivered."""
        status = await self._bus.status()
        consumers = {consumer.consumer: consumer for consumer in status.consumers}
        return [
            OutputProgress(
                name=name,
                position=consumers[name].position,
                types=types,
                why_not_taken=partial(self._why_not_taken, name),
                began_at=await self._began(name),
                dead_letters=tuple(await self._bus.dead_letters(name, limit=_DEAD_LETTERS))
                if consumers[name].dead_letters
                else (),
            )
            for name, types in self._outputs().items()
            if name in consumers
        ]

    async def _began(self, name: str) -> datetime | None:
        if name not in self._began_at:
            stored = (await self._bus.consumer_state(name)).get(BEGAN_AT)
            self._began_at[name] = None if stored is None else _instants.decode(stored)
        return self._began_at[name]


def delivery_step(recorded: Recorded, output: OutputProgress) -> ExplanationStep:
    """Return whether an output has taken an event."""
    event, ahead = recorded.event, recorded.position - output.position - 1
    letters = {letter.position: letter.reason for letter in output.dead_letters}
    if event.type not in output.types:
        outcome, detail = StepOutcome.NOT_FOR_OUTPUT, f"{output.name} does not take {event.type}"
    elif (why_not := output.why_not_taken(event)) is not None:
        outcome = StepOutcome.NOT_FOR_OUTPUT
        detail = f"{output.name} does not take it: {why_not}"
    elif output.began_at is not None and event.recorded_at < output.began_at:
        outcome = StepOutcome.NO_OUTPUT
        detail = f"{output.name} was added after {event.type}, {instant(output.began_at)}"
    elif recorded.position in letters:
        outcome = StepOutcome.DEAD_LETTER
        detail = f"{output.name} refused {event.type} for good: {letters[recorded.position]}"
    elif ahead >= 0:
        outcome = StepOutcome.WAITING
        waits = f"waits in {output.name} after {ahead} other event{'s'[: ahead != 1]}"
        # Positions are stored within a second, so this is what everybody sees of a new alert.
        detail = f"{event.type} {waits if ahead else f'is on its way to {output.name}'}"
    else:
        outcome, detail = StepOutcome.DELIVERED, f"{event.type} was delivered"
    stage = ExplanationStage.DELIVERY
    return ExplanationStep(stage, outcome, detail, output=output.name, event_id=event.id)


def _notification(
    alert: Alert, events: Sequence[Recorded], outputs: Sequence[OutputProgress]
) -> NotificationStatus:
    if not events:
        # The log has dropped them, which it does once every output has read them.
        return _unlogged(alert, {output.name: output.began_at for output in outputs})
    waiting: list[str] = []
    for recorded in sorted(events, key=_position, reverse=True):
        steps = [delivery_step(recorded, output) for output in outputs]
        taken = [step.output or "" for step in steps if step.outcome is StepOutcome.DELIVERED]
        if taken:
            return NotificationStatus(at=recorded.event.recorded_at, through=tuple(taken))
        waiting += [step.detail for step in steps if step.outcome is not StepOutcome.NOT_FOR_OUTPUT]
    return NotificationStatus(why_not="; ".join(dict.fromkeys(waiting)) or "no output has taken it")


def _unlogged(alert: Alert, began_at: Mapping[str, datetime | None]) -> NotificationStatus:
    at = alert.notified_at
    through = tuple(
        name for name, began in began_at.items() if at is not None and (began is None or began < at)
    )
    if not through:
        return NotificationStatus(why_not="no output was there when it fired")
    return NotificationStatus(at=at, through=through)


def _event_ids(alert: Alert) -> list[str]:
    """Return the ids of events that notified people of it; the log knows which there are."""
    reminders = range(max(1, alert.reminders - _REMINDERS_READ + 1), alert.reminders + 1)
    numbers = {"fired": OPENINGS, "flapping": OPENINGS, "reminded": reminders}
    return [
        alert_event_id(alert.fingerprint, alert.starts_at, transition, number)
        for transition, of_transition in numbers.items()
        for number in of_transition
    ]


def _position(recorded: Recorded) -> int:
    return recorded.position
