"""Dead letters: sent to their output again, or dropped, while its position stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import DeadLetter, Start, Step
from monitor.bus.sqlite import SqliteBus
from monitor.model.errors import OutputRefusedError, OutputUnavailableError
from monitor.model.events import AlertEvent, EventType
from monitor.outputs.dead_letters import DeadLetters, LetterAction, LettersProcessed
from tests.clocks import ManualClock
from tests.outputs.alert_histories import BEGAN, fired, resolved
from tests.outputs.histories import change
from tests.outputs.recording_output import RecordingOutput

LIMIT_SECONDS = 60.0


class Scenario:
    """A store with the dead letters of an output, and the output."""

    def __init__(self, bus: SqliteBus, clock: ManualClock) -> None:
        self.bus = bus
        self.clock = clock
        self.output = RecordingOutput()
        self.outputs = {"recording": self.output}
        self.letters = DeadLetters(self.outputs, bus=bus, clock=clock)

    async def refuse(self, *events: AlertEvent, is_logged: bool = True) -> None:
        """Store events as refused; the newest position is that of the last of them."""
        before = (await self.bus.status()).newest_position
        if is_logged:
            await self.bus.commit(change(*events), timeout_seconds=5)
        letters = [
            DeadLetter(position=position, event=event, reason="too large", refused_at=BEGAN)
            for position, event in enumerate(events, before + 1 if is_logged else before)
        ]
        step = Step(consumer="recording", dead_letters=tuple(letters))
        await self.bus.advance(step, timeout_seconds=5)

    async def left(self) -> list[tuple[str, str]]:
        """Return the id and reason of each letter, in the order of the log."""
        letters = await self.bus.dead_letters_after("recording", None, limit=10_000)
        return [(letter.event.id, letter.reason) for letter in letters]

    async def process(
        self, action: LetterAction = LetterAction.RESEND, *events: AlertEvent
    ) -> LettersProcessed:
        """Process the letters of these events, all without any, while the clock advances."""
        ids = tuple(event.id for event in events) or None
        task = asyncio.create_task(self.letters.process("recording", action, ids))
        async with asyncio.timeout(LIMIT_SECONDS):
            while not task.done():
                await self.clock.advance(0.5)
        return await task


@pytest.fixture
async def scenario(tmp_path: Path) -> AsyncIterator[Scenario]:
    """Return a scenario with an empty log."""
    clock = ManualClock()
    bus = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    await bus.subscribe("recording", start=Start.NEWEST)
    yield Scenario(bus, clock)
    await bus.close()


def ids_of(events: Sequence[AlertEvent]) -> list[str]:
    return [event.id for event in events]


async def test_all_letters_are_sent_in_the_order_of_the_log_and_go(scenario: Scenario) -> None:
    """Under the ids they had, however many there are; a second resend finds none."""
    events = [fired(number) for number in range(120)]
    await scenario.refuse(*events)
    done = await scenario.process()

    assert done == LettersProcessed(output="recording", sent=120)
    assert scenario.output.ids == ids_of(events)
    assert await scenario.left() == []
    assert await scenario.process() == LettersProcessed(output="recording")


async def test_some_are_chosen_by_their_events(scenario: Scenario) -> None:
    """The others stay; ids that no letter has are named, and change nothing."""
    await scenario.refuse(fired(1), fired(2), fired(3))
    done = await scenario.process(LetterAction.RESEND, fired(2), fired(9))

    assert done == LettersProcessed(output="recording", sent=1, missing=(fired(9).id,), left=2)
    assert scenario.output.ids == [fired(2).id]
    again = await scenario.process(LetterAction.RESEND, fired(2))
    assert again == LettersProcessed(output="recording", missing=(fired(2).id,), left=2)


async def test_what_is_refused_again_stays_with_the_new_reason(scenario: Scenario) -> None:
    """It is counted, and the next resend sends it again."""
    scenario.output.problems[fired(2).id] = [OutputRefusedError("not authorized")]
    await scenario.refuse(fired(1), fired(2), fired(3))
    done = await scenario.process()

    assert done == LettersProcessed(output="recording", sent=2, refused=1, left=1)
    assert await scenario.left() == [(fired(2).id, "not authorized")]
    assert await scenario.process() == LettersProcessed(output="recording", sent=1)


async def test_what_is_nothing_for_the_output_now_stays(scenario: Scenario) -> None:
    """Such as for a channel that is muted: it is not sent, so it is not gone."""
    silenced = msgspec.structs.replace(fired(1), id="silenced", type=EventType.ALERT_SILENCED)
    await scenario.refuse(silenced, fired(2))
    done = await scenario.process()

    assert done == LettersProcessed(output="recording", sent=1, skipped=1, left=1)
    assert await scenario.left() == [("silenced", "too large")]


async def test_an_output_that_stays_away_keeps_what_it_did_not_accept(scenario: Scenario) -> None:
    """Those before it are gone; the answer says why it ended."""
    scenario.output.problems[fired(60).id] = [
        OutputUnavailableError("answered 503") for _ in range(9)
    ]
    await scenario.refuse(*map(fired, range(100)))
    done = await scenario.process()

    assert done == LettersProcessed(output="recording", sent=60, left=40, reason="answered 503")
    assert (await scenario.left())[0] == (fired(60).id, "too large")


async def test_an_alert_that_is_over_does_not_fire_again(scenario: Scenario) -> None:
    """Its end was accepted before its start, so it is sent once more, after the start."""
    await scenario.refuse(fired(1), fired(2))
    await scenario.bus.commit(change(resolved(1)), timeout_seconds=5)
    done = await scenario.process()

    assert scenario.output.ids == ids_of([fired(1), fired(2), resolved(1)])
    assert done == LettersProcessed(output="recording", sent=2)


async def test_an_event_that_retention_removed_is_sent_as_its_letter_has_it(
    scenario: Scenario,
) -> None:
    """The log is not needed, unlike for a replay."""
    await scenario.refuse(fired(1), is_logged=False)

    assert (await scenario.process()).sent == 1
    assert scenario.output.ids == [fired(1).id]


async def test_dropped_letters_are_counted_and_never_sent(scenario: Scenario) -> None:
    """Some, or all that are left; dropping them again finds none."""
    events = [fired(number) for number in range(120)]
    await scenario.refuse(*events)
    some = await scenario.process(LetterAction.DROP, events[3], events[70], fired(999))

    assert some == LettersProcessed(
        output="recording", dropped=2, missing=(fired(999).id,), left=118
    )
    done = await scenario.process(LetterAction.DROP)
    assert done == LettersProcessed(output="recording", dropped=118)
    assert await scenario.process(LetterAction.DROP) == LettersProcessed(output="recording")
    assert (scenario.output.ids, await scenario.left()) == ([], [])


@pytest.mark.parametrize("action", LetterAction)
async def test_the_delivery_keeps_its_position(scenario: Scenario, action: LetterAction) -> None:
    """What waits for the output still waits."""
    await scenario.refuse(fired(1), fired(2))
    await scenario.bus.advance(Step(consumer="recording", position=1), timeout_seconds=5)
    await scenario.process(action)

    (status,) = (await scenario.bus.status()).consumers
    assert (status.position, status.backlog, status.dead_letters) == (1, 1, 0)


async def test_a_letter_that_comes_meanwhile_is_not_waited_for(scenario: Scenario) -> None:
    """An output that refuses all that it is sent cannot keep a resend going."""
    scenario.output.problems[fired(1).id] = [OutputUnavailableError("busy")]
    await scenario.refuse(*map(fired, range(1, 51)))
    task = asyncio.create_task(scenario.letters.process("recording", LetterAction.RESEND, None))
    async with asyncio.timeout(LIMIT_SECONDS):
        while not scenario.output.ids:
            await asyncio.wait([task], timeout=0.001)
        await scenario.refuse(*map(fired, range(51, 60)))
        while not task.done():
            await scenario.clock.advance(0.5)
    done = await task

    assert (done.sent, done.left) == (50, 9)


async def test_one_request_at_a_time(scenario: Scenario) -> None:
    """A second one for the same output is refused until the first has ended."""
    scenario.output.problems[fired(1).id] = [OutputUnavailableError("busy")]
    await scenario.refuse(fired(1))
    first = asyncio.create_task(scenario.letters.process("recording", LetterAction.RESEND, None))
    async with asyncio.timeout(LIMIT_SECONDS):
        while not scenario.output.ids:
            await asyncio.wait([first], timeout=0.001)
        with pytest.raises(OutputUnavailableError, match="are being processed"):
            await scenario.letters.process("recording", LetterAction.DROP, None)
        while not first.done():
            await scenario.clock.advance(0.5)

    assert (await first).sent == 1
    with pytest.raises(KeyError):
        await scenario.letters.process("tols", LetterAction.DROP, None)
