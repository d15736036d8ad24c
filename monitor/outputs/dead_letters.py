"""Sends dead letters to their output again, or drops them, beside the delivery of the output.

A letter goes when its output has accepted the event, and stays where it was refused again or is
nothing for the output now. What a daemon that died had sent and not removed is sent again, under
the same ids.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from enum import StrEnum

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.contract import DeadLetter, EventBus, Recorded, Step
from monitor.model.alerts import OPENINGS, alert_event_id
from monitor.model.clock import Clock
from monitor.model.errors import OutputUnavailableError
from monitor.model.events import AlertEvent, Event
from monitor.outputs.delivery import Output
from monitor.outputs.sending_again import AT_ONCE, SendingAgain, Sent

log = structlog.get_logger()

_STORE_SECONDS = 10.0


class LetterAction(StrEnum):
    """What is done with dead letters."""

    RESEND = "resend"
    DROP = "drop"


class LettersProcessed(Struct, frozen=True, kw_only=True):
    """What became of dead letters.

    ``refused`` and ``skipped`` are kept: the output refused them again, or they are nothing for it
    now. ``missing`` are ids of no dead letter of it, such as those that were processed before.
    ``left`` is how many it has now. ``reason`` says why a resend ended early.
    """

    output: str
    sent: int = 0
    refused: int = 0
    skipped: int = 0
    dropped: int = 0
    missing: tuple[str, ...] = ()
    left: int = 0
    reason: str | None = None


class DeadLetters:
    """The dead letters of the outputs of a shard; one request at a time for each output."""

    def __init__(self, outputs: Mapping[str, Output], *, bus: EventBus, clock: Clock) -> None:
        """``outputs`` changes with the settings."""
        self._outputs = outputs
        self._bus = bus
        self._clock = clock
        self._under_way: set[str] = set()

    async def process(
        self, name: str, action: LetterAction, event_ids: Collection[str] | None
    ) -> LettersProcessed:
        """Resend or drop the letters of these events, or all that there are now.

        Raises:
            KeyError: there is no such output.
            OutputUnavailableError: its letters are being processed.
            BusUnavailableError: the store does not answer; what it did not store may be repeated.
        """
        if name not in self._outputs:
            raise KeyError(name)
        if name in self._under_way:
            raise OutputUnavailableError(f"the dead letters of {name} are being processed")
        self._under_way.add(name)
        try:
            done = await self._process(name, action, event_ids)
        finally:
            self._under_way.discard(name)
        log.info(
            "dead letters processed",
            action=action,
            **{field: getattr(done, field) for field in done.__struct_fields__},
        )
        return done

    async def _process(
        self, name: str, action: LetterAction, event_ids: Collection[str] | None
    ) -> LettersProcessed:
        wanted = None if event_ids is None else frozenset(event_ids)
        if action is LetterAction.DROP:
            done, found = await self._drop(name, wanted)
        else:
            done, found = await self._resend(name, wanted)
        status = await self._bus.status()
        left = (each.dead_letters for each in status.consumers if each.consumer == name)
        return msgspec.structs.replace(
            done, missing=tuple(sorted((wanted or frozenset()) - found)), left=next(left, 0)
        )

    async def _drop(
        self, name: str, wanted: frozenset[str] | None
    ) -> tuple[LettersProcessed, set[str]]:
        positions: list[int] = []
        found: set[str] = set()
        async for letters in self._chosen(name, wanted):
            positions += [letter.position for letter in letters]
            found.update(letter.event.id for letter in letters)
        if positions:
            step = Step(consumer=name, removed_letters=tuple(positions))
            await self._bus.advance(step, timeout_seconds=_STORE_SECONDS)
        return LettersProcessed(output=name, dropped=len(positions)), found

    async def _resend(
        self, name: str, wanted: frozenset[str] | None
    ) -> tuple[LettersProcessed, set[str]]:
        sent = refused = skipped = 0
        found: set[str] = set()
        reason: str | None = None
        async for letters in self._chosen(name, wanted):
            found.update(letter.event.id for letter in letters)
            if reason is not None:
                continue  # only to know which are missing
            answers: dict[str, tuple[Sent, str]] = {}
            reason = await self._send(name, letters, answers)
            sent += await self._store(name, letters, answers)
            of_letters = [answers.get(letter.event.id) for letter in letters]
            outcomes = [answer[0] for answer in of_letters if answer is not None]
            refused += outcomes.count(Sent.REFUSED)
            skipped += outcomes.count(Sent.SKIPPED)
        done = LettersProcessed(
            output=name, sent=sent, refused=refused, skipped=skipped, reason=reason
        )
        return done, found

    async def _chosen(
        self, name: str, wanted: frozenset[str] | None
    ) -> AsyncIterator[list[DeadLetter]]:
        """Yield some letters at a time, in the order of the log; later ones are not waited for."""
        until = (await self._bus.status()).newest_position
        after: int | None = None
        while True:
            page = await self._bus.dead_letters_after(name, after, limit=AT_ONCE)
            chosen = [
                letter
                for letter in page
                if letter.position <= until and (wanted is None or letter.event.id in wanted)
            ]
            if chosen:
                yield chosen
            if len(page) < AT_ONCE:
                return
            after = page[-1].position

    async def _send(
        self, name: str, letters: Sequence[DeadLetter], answers: dict[str, tuple[Sent, str]]
    ) -> str | None:
        """Send the events of some letters; return why the output accepts no more."""

        def on_sent(recorded: Recorded, sent: Sent, reason: str) -> None:
            answers[recorded.event.id] = sent, reason

        sending = SendingAgain(name, self._outputs, clock=self._clock, on_sent=on_sent)
        return await sending.send(await self._with_news(letters))

    async def _with_news(self, letters: Sequence[DeadLetter]) -> list[Recorded]:
        """Return the events as the log has them, each with the newest one of its alert.

        The output was sent those before; without them an alert that is over would fire again. What
        retention has removed from the log is sent as the letter has it.
        """
        ids = {id_ for letter in letters for id_ in _ids_of_alert(letter.event)}
        logged = await self._bus.events_by_id(ids | {letter.event.id for letter in letters})
        sent = {
            letter.event.id: logged.get(letter.event.id, Recorded(letter.position, letter.event))
            for letter in letters
        }
        newest: dict[str, Recorded] = {}  # by alert
        for recorded in sorted(logged.values(), key=_position):
            if isinstance(recorded.event, AlertEvent):
                newest[recorded.event.subject + str(recorded.event.alert.starts_at)] = recorded
        sent.update((recorded.event.id, recorded) for recorded in newest.values())
        return sorted(sent.values(), key=_position)

    async def _store(
        self,
        name: str,
        letters: Sequence[DeadLetter],
        answers: Mapping[str, tuple[Sent, str]],
    ) -> int:
        """Remove the accepted letters, and store why others were refused; return how many went."""
        removed: list[int] = []
        kept: list[DeadLetter] = []
        for letter in letters:
            sent, reason = answers.get(letter.event.id, (Sent.SKIPPED, ""))
            if sent is Sent.ACCEPTED:
                removed.append(letter.position)
            elif sent is Sent.REFUSED:
                now = self._clock.now()
                kept.append(msgspec.structs.replace(letter, reason=reason, refused_at=now))
        if removed or kept:
            step = Step(consumer=name, removed_letters=tuple(removed), dead_letters=tuple(kept))
            await self._bus.advance(step, timeout_seconds=_STORE_SECONDS)
        return len(removed)


def _position(recorded: Recorded) -> int:
    return recorded.position


def _ids_of_alert(event: Event) -> list[str]:
    """Return the ids of all starts and ends that the alert of the event may have."""
    if not isinstance(event, AlertEvent):
        return []
    return [
        alert_event_id(event.alert.fingerprint, event.alert.starts_at, word, number)
        for word in ("fired", "flapping", "resolved")
        for number in OPENINGS
    ]
