"""Replaying the log to an output, without moving its position."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Start, Step
from monitor.bus.sqlite import SqliteBus
from monitor.model.errors import OutputRefusedError, OutputUnavailableError
from monitor.model.events import AlertEvent, EventType
from monitor.outputs.replaying import Replayed, Replays
from tests.clocks import ManualClock
from tests.outputs.alert_histories import BEGAN, ENDED, fired, resolved
from tests.outputs.histories import change
from tests.outputs.recording_output import RecordingOutput

LIMIT_SECONDS = 60.0


class Scenario:
    """A store, an output and its replay."""

    def __init__(self, bus: SqliteBus, clock: ManualClock) -> None:
        self.bus = bus
        self.clock = clock
        self.output = RecordingOutput()
        self.outputs = {"recording": self.output}
        self.replays = Replays(self.outputs, bus=bus, clock=clock)

    async def emit(self, *events: AlertEvent) -> None:
        await self.bus.commit(change(*events), timeout_seconds=5)

    async def replay(self, *, seconds: float = 0.0) -> Replayed:
        """Replay the whole log while the clock advances."""
        since = BEGAN + timedelta(seconds=seconds)
        task = asyncio.create_task(self.replays.replay("recording", since))
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


def silenced(number: int) -> AlertEvent:
    event = fired(number)
    return msgspec.structs.replace(event, id=f"{event.id}-", type=EventType.ALERT_SILENCED)


async def test_all_events_since_then_are_sent_again_under_the_same_ids(scenario: Scenario) -> None:
    """They are sent in the order of the log; skipped events are counted apart."""
    events = [*map(fired, range(120)), silenced(1), resolved(5)]
    await scenario.emit(*events)
    replayed = await scenario.replay()
    assert replayed == Replayed(output="recording", sent=121, skipped=1, refused=0)
    assert scenario.output.ids == [
        event.id for event in events if event.type != EventType.ALERT_SILENCED
    ]


async def test_older_events_are_left_out(scenario: Scenario) -> None:
    """Only events recorded at the given time or later are sent again."""
    await scenario.emit(fired(1), resolved(1))
    await scenario.replay(seconds=(ENDED - BEGAN).total_seconds())
    assert scenario.output.ids == [resolved(1).id]


async def test_the_position_stays_where_it_is(scenario: Scenario) -> None:
    """A replay neither drops an output's backlog nor counts as its delivery."""
    await scenario.emit(fired(1), fired(2), fired(3))
    await scenario.bus.advance(Step(consumer="recording", position=2), timeout_seconds=5)
    await scenario.replay()
    (status,) = (await scenario.bus.status()).consumers
    assert (status.position, status.backlog) == (2, 1)


async def test_a_refused_event_is_counted_and_passed(scenario: Scenario) -> None:
    """The others arrive; no second dead letter is written."""
    scenario.output.problems[fired(2).id] = [OutputRefusedError("too large")]
    await scenario.emit(fired(1), fired(2), fired(3))
    replayed = await scenario.replay()
    assert (replayed.sent, replayed.refused, replayed.reason) == (2, 1, None)
    assert await scenario.bus.dead_letters("recording", limit=5) == []


async def test_a_failure_that_passes_costs_no_order(scenario: Scenario) -> None:
    """From the first event that failed on, all are sent again after a wait."""
    scenario.output.problems[fired(2).id] = [OutputUnavailableError("busy") for _ in range(2)]
    await scenario.emit(fired(1), fired(2), fired(3))
    replayed = await scenario.replay()
    first, second, third = (fired(number).id for number in (1, 2, 3))
    assert scenario.output.ids == [first, second, third, second, third, second, third]
    assert replayed == Replayed(output="recording", sent=3, skipped=0, refused=0)


@pytest.mark.parametrize("is_replaced", [True, False])
async def test_a_replay_outlives_its_output(scenario: Scenario, *, is_replaced: bool) -> None:
    """Where other settings replace the output it goes on with the new one, and ends with none."""
    await scenario.emit(fired(1), fired(2))
    scenario.output.is_stopped = True
    task = asyncio.create_task(scenario.replays.replay("recording", BEGAN))
    async with asyncio.timeout(LIMIT_SECONDS):
        while not scenario.output.ids:
            await scenario.clock.advance(0.5)
        del scenario.outputs["recording"]
        replacement = RecordingOutput()
        if is_replaced:
            scenario.outputs["recording"] = replacement
        while not task.done():
            await scenario.clock.advance(0.5)
    sent = [fired(1).id, fired(2).id] if is_replaced else []
    reason = None if is_replaced else "no longer configured"
    assert await task == Replayed(
        output="recording", sent=len(sent), skipped=0, refused=0, reason=reason
    )
    assert replacement.ids == sent
    if is_replaced:
        assert (await scenario.replay()).sent == 2


@pytest.mark.parametrize("is_up", [True, False])
async def test_an_output_that_stays_away_ends_the_replay(
    scenario: Scenario, *, is_up: bool
) -> None:
    """The error reports how far the replay came and why it ended, instead of retrying forever."""
    scenario.output.problems[fired(60).id] = [
        OutputUnavailableError("answered 503") for _ in range(9)
    ]
    await scenario.emit(*map(fired, range(100)))
    if not is_up:
        scenario.output.is_up.clear()
    replayed = await scenario.replay()
    assert replayed.reason == ("answered 503" if is_up else "cannot be reached")
    assert replayed.sent == (60 if is_up else 0)


async def test_events_delivered_during_a_replay_are_sent_again(scenario: Scenario) -> None:
    """An alert that resolves during a replay ends as resolved, not as firing."""
    scenario.output.problems[fired(1).id] = [OutputUnavailableError("busy")]
    await scenario.emit(fired(1))
    task = asyncio.create_task(scenario.replays.replay("recording", BEGAN))
    async with asyncio.timeout(LIMIT_SECONDS):
        while not scenario.output.ids:
            await scenario.clock.advance(0.0)
        await scenario.emit(resolved(1))
        while not task.done():
            await scenario.clock.advance(0.5)
    assert scenario.output.ids[-1] == resolved(1).id
    assert (await task).sent == 2


async def test_one_replay_at_a_time(scenario: Scenario) -> None:
    """A second replay to the same output is refused until the first has ended."""
    scenario.output.problems[fired(1).id] = [OutputUnavailableError("busy")]
    await scenario.emit(fired(1))
    first = asyncio.create_task(scenario.replays.replay("recording", BEGAN))
    async with asyncio.timeout(LIMIT_SECONDS):
        while not scenario.output.ids:
            await asyncio.wait([first], timeout=0.001)
        with pytest.raises(OutputUnavailableError, match="under way"):
            await scenario.replays.replay("recording", BEGAN)
        while not first.done():
            await scenario.clock.advance(0.5)
    assert (await first).sent == 1
    assert (await scenario.replay()).sent == 1


async def test_an_unknown_output_is_an_error_of_the_caller(scenario: Scenario) -> None:
    """The caller gets the names of the outputs."""
    assert scenario.replays.names == ("recording",)
    with pytest.raises(KeyError):
        await scenario.replays.replay("tols", BEGAN)
