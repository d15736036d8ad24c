"""From the log to a receiver: positions, retries, dead letters."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Recorded, Retention, Start
from monitor.bus.sqlite import SqliteBus
from monitor.model.errors import (
    OutputConnectionLostError,
    OutputError,
    OutputRefusedError,
    OutputUnavailableError,
)
from monitor.model.events import EventType
from monitor.model.runs import Status
from monitor.outputs.delivery import Delivery, DeliveryMetrics
from monitor.outputs.settings import DeliverySettings
from tests.clocks import ManualClock
from tests.outputs.histories import change, detailed_event, run_event

LIMIT_SECONDS = 60.0


class Receiver:
    """An output that answers as the test configures: at once, or on request."""

    name = "receiver"

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.received: list[str] = []
        self.at: list[float] = []  # monotonic time of each attempt
        self.problems: dict[str, list[OutputError]] = {}  # event id -> answers before the good one
        self.pending: list[tuple[str, asyncio.Future[None]]] = []
        self.is_slow = False  # answers are left to the test
        self.is_up = asyncio.Event()
        self.is_up.set()

    async def ready(self) -> None:
        await self.is_up.wait()

    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        event = recorded.event
        if event.type is EventType.RUN_DETAILED:
            return None
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.at.append(self._clock.monotonic())
        self.received.append(event.id)
        if problems := self.problems.get(event.id):
            answer.set_exception(problems.pop(0))
        elif self.is_slow:
            self.pending.append((event.id, answer))
        else:
            answer.set_result(None)
        return answer


class Scenario:
    """A store, a receiver and a delivery between them."""

    def __init__(self, bus: SqliteBus, clock: ManualClock) -> None:
        self.bus = bus
        self.clock = clock
        self.receiver = Receiver(clock)
        self.registry = CollectorRegistry()
        self.delivery = Delivery(
            self.receiver,
            bus=bus,
            clock=clock,
            metrics=DeliveryMetrics(self.registry),
            settings=DeliverySettings(window=10, wait_seconds=0.2),
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self.delivery.run())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    async def emit(self, *runs: str, status: Status = Status.RUNNING) -> None:
        events = [run_event(run, status) for run in runs]
        await self.bus.commit(change(*events), timeout_seconds=5)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Advance the clock until the condition holds."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while not condition():
                await self.clock.advance(0.1)

    async def until_committed(self) -> None:
        """Advance the clock until the consumer's position is the newest of the log."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while (await self.bus.status()).consumers[0].backlog:
                await self.clock.advance(0.1)

    def count(self, outcome: str) -> float:
        labels = {"output": "receiver", "outcome": outcome}
        value = self.registry.get_sample_value("dataprep_monitor_notifications_total", labels)
        return value or 0.0


@pytest.fixture
async def scenario(tmp_path: Path) -> AsyncIterator[Scenario]:
    """Return a scenario whose consumer exists and whose delivery is not yet running."""
    clock = ManualClock()
    bus = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    await bus.subscribe("receiver", start=Start.NEWEST)
    made = Scenario(bus, clock)
    yield made
    await made.stop()
    await bus.close()


def ids(*runs: str) -> list[str]:
    return [run_event(run).id for run in runs]


async def test_events_arrive_in_order_and_the_position_follows(scenario: Scenario) -> None:
    """Every event of the log is delivered once, and the backlog is empty."""
    await scenario.start()
    runs = [str(number) for number in range(35)]
    await scenario.emit(*runs)
    await scenario.until_committed()
    assert scenario.receiver.received == ids(*runs)
    assert scenario.count("delivered") == len(runs)


async def test_a_new_consumer_begins_with_the_newest_event(tmp_path: Path) -> None:
    """Events from before an output was configured are not delivered to it."""
    clock = ManualClock()
    bus = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    scenario = Scenario(bus, clock)
    await scenario.emit("1")
    await scenario.start()
    async with asyncio.timeout(LIMIT_SECONDS):
        while not (await bus.status()).consumers:
            await clock.advance(0.1)
    await scenario.emit("2")
    await scenario.until_committed()
    assert scenario.receiver.received == ids("2")
    await scenario.stop()
    await bus.close()


async def test_the_position_waits_for_the_first_that_is_not_acknowledged(
    scenario: Scenario,
) -> None:
    """After a crash all events from the first unacknowledged one on are delivered again."""
    scenario.receiver.is_slow = True
    await scenario.start()
    await scenario.emit("1", "2", "3")
    await scenario.until(lambda: len(scenario.receiver.pending) == 3)
    scenario.receiver.pending[0][1].set_result(None)
    scenario.receiver.pending[2][1].set_result(None)
    await scenario.until(lambda: scenario.count("delivered") == 1)
    await scenario.stop()
    assert (await scenario.bus.status()).consumers[0].position == 1

    scenario.receiver.is_slow = False
    scenario.receiver.received.clear()
    await scenario.start()
    await scenario.until_committed()
    assert scenario.receiver.received == ids("2", "3")


async def test_no_more_than_the_window_is_on_its_way(scenario: Scenario) -> None:
    """A slow receiver gets no more than the window allows."""
    scenario.receiver.is_slow = True
    await scenario.start()
    await scenario.emit(*[str(number) for number in range(30)])
    await scenario.until(lambda: len(scenario.receiver.pending) >= 10)
    await scenario.clock.advance(60)
    assert len(scenario.receiver.pending) == 10


async def test_a_refused_event_becomes_a_dead_letter_and_blocks_no_other(
    scenario: Scenario,
) -> None:
    """The refusal is stored with its reason, and the events after it are delivered."""
    (refused,) = ids("2")
    scenario.receiver.problems[refused] = [OutputRefusedError("not authorized")]
    await scenario.start()
    await scenario.emit("1", "2", "3")
    await scenario.until_committed()
    (letter,) = await scenario.bus.dead_letters("receiver", limit=10)
    assert (letter.event.id, letter.reason) == (refused, "not authorized")
    assert scenario.receiver.received == ids("1", "2", "3")
    assert (scenario.count("delivered"), scenario.count("refused")) == (2, 1)


async def test_an_unavailable_receiver_is_retried_with_growing_waits(scenario: Scenario) -> None:
    """Nothing is lost, and each wait is twice the one before."""
    (failing,) = ids("1")
    scenario.receiver.problems[failing] = [OutputUnavailableError("busy") for _ in range(4)]
    await scenario.start()
    await scenario.emit("1")
    await scenario.until_committed()
    at = scenario.receiver.at
    waits = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert [round(wait) for wait in waits] == [1, 2, 4, 8]
    assert await scenario.bus.dead_letters("receiver", limit=1) == []


async def test_an_event_that_always_breaks_the_connection_does_not_block_others(
    scenario: Scenario,
) -> None:
    """It becomes a dead letter after it broke the connection alone; the rest is delivered."""
    (poison,) = ids("1")
    scenario.receiver.problems[poison] = [OutputConnectionLostError("gone") for _ in range(50)]
    await scenario.start()
    await scenario.emit("1", "2")
    await scenario.until_committed()
    (letter,) = await scenario.bus.dead_letters("receiver", limit=10)
    assert letter.event.id == poison
    assert scenario.receiver.received[-1] == ids("2")[0]


async def test_a_receiver_that_is_away_is_waited_for(scenario: Scenario) -> None:
    """Events emitted meanwhile are delivered when it is back."""
    scenario.receiver.is_up.clear()
    await scenario.start()
    await scenario.emit("1", "2")
    await scenario.clock.advance(600)
    assert scenario.receiver.received == []
    scenario.receiver.is_up.set()
    await scenario.until_committed()
    assert scenario.receiver.received == ids("1", "2")


async def test_an_event_that_is_skipped_moves_the_position(scenario: Scenario) -> None:
    """An event that the output does not publish is counted as skipped and passed."""
    await scenario.start()
    await scenario.bus.commit(change(detailed_event()), timeout_seconds=5)
    await scenario.until_committed()
    assert scenario.receiver.received == []
    assert scenario.count("skipped") == 1


async def test_events_that_retention_removed_are_counted_and_passed(scenario: Scenario) -> None:
    """A consumer that retention overtook continues after the gap."""
    await scenario.emit("1", "2", "3", "4")
    keep = Retention(events_count=1, events_hard_cap=1)
    await scenario.bus.prune(keep, now=scenario.clock.now())
    await scenario.start()
    await scenario.until_committed()
    assert scenario.receiver.received == ids("4")
    assert scenario.count("lost") == 3


async def test_a_clean_stop_stores_the_acknowledged_position(scenario: Scenario) -> None:
    """The position is durable after the stop, without waiting for the next commit."""
    await scenario.start()
    await scenario.emit("1", "2")
    await scenario.until(lambda: scenario.count("delivered") == 2)
    await scenario.stop()
    assert (await scenario.bus.status()).consumers[0].backlog == 0


async def test_draining_waits_for_the_last_answer(scenario: Scenario) -> None:
    """It returns whether everything was acknowledged in time."""
    scenario.receiver.is_slow = True
    await scenario.start()
    await scenario.emit("1")
    await scenario.until(lambda: len(scenario.receiver.pending) == 1)
    impatient = asyncio.create_task(scenario.delivery.drain(timeout_seconds=2))
    await scenario.until(impatient.done)
    assert not impatient.result()
    patient = asyncio.create_task(scenario.delivery.drain(timeout_seconds=1e9))
    scenario.receiver.pending[0][1].set_result(None)
    await scenario.until(patient.done)
    assert patient.result()
