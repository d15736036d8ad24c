"""When the position of a delivery is stored, and how many commits that costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Recorded, Start, Step, StoreStatus
from monitor.bus.sqlite import SqliteBus
from monitor.model.events import EventType
from monitor.outputs.delivery import Delivery, DeliveryMetrics
from monitor.outputs.settings import DeliverySettings
from tests.app.eventually import eventually
from tests.clocks import ManualClock
from tests.outputs.histories import change, detailed_event, run_event

EVENTS = 100


class StoredStep(Struct, frozen=True):
    """A position that was to be stored, and for how long it waits for another's commit."""

    position: int | None
    linger_seconds: float


class CountingBus:
    """A store that counts the steps of its consumers."""

    def __init__(self, bus: SqliteBus) -> None:
        self._bus = bus
        self.steps: list[StoredStep] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def advance(
        self, step: Step, *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> None:
        self.steps.append(StoredStep(step.position, linger_seconds))
        await self._bus.advance(step, timeout_seconds=timeout_seconds)


class Receiver:
    """Takes everything at once but job records, which are nothing for it."""

    name = "receiver"

    def __init__(self) -> None:
        self.received = 0

    async def ready(self) -> None:
        return

    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        if recorded.event.type is EventType.RUN_DETAILED:
            return None
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer.set_result(None)
        self.received += 1
        return answer


class Scenario:
    """A store, and a delivery that runs on a clock which the test moves."""

    def __init__(self, bus: SqliteBus, clock: ManualClock) -> None:
        self.bus = CountingBus(bus)
        self.clock = clock
        self.receiver = Receiver()

    def delivery(self, **more: Any) -> Delivery:
        settings = DeliverySettings(wait_seconds=0.2)
        return Delivery(
            self.receiver,
            bus=self.bus,
            clock=self.clock,
            metrics=DeliveryMetrics(CollectorRegistry()),
            settings=msgspec.structs.replace(settings, **more),
        )

    async def emit_one_by_one(self, count: int) -> None:
        """Emit events that are delivered each by itself, within one second."""
        for number in range(count):
            await self.bus.commit(change(run_event(str(number))), timeout_seconds=5)
            wanted = number + 1
            await eventually(partial(self.has_received, wanted), why="it is not delivered")
            await self.clock.advance(1 / count)

    def has_received(self, events: int) -> bool:
        return self.receiver.received == events

    async def stored_position(self) -> int:
        status: StoreStatus = await self.bus.status()
        return status.consumers[0].position


@pytest.fixture
async def scenario(tmp_path: Path) -> AsyncIterator[Scenario]:
    clock = ManualClock()
    bus = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    await bus.subscribe("receiver", start=Start.NEWEST)
    yield Scenario(bus, clock)
    await bus.close()


async def test_a_position_waits_for_the_commits_of_others(scenario: Scenario) -> None:
    """A hundred events a second cost three steps at most, none with a commit of its own."""
    running = asyncio.create_task(scenario.delivery().run())
    await scenario.emit_one_by_one(EVENTS)
    steps = list(scenario.bus.steps)
    running.cancel()
    await asyncio.wait([running])
    assert 1 <= len(steps) <= 3
    assert all(step.linger_seconds == 0.5 for step in steps)
    assert await scenario.stored_position() == EVENTS


async def test_an_output_to_people_stores_each_answer_at_once(scenario: Scenario) -> None:
    """No time passes between the answer and the step, so a kill repeats no page."""
    running = asyncio.create_task(scenario.delivery(stores_answers_at_once=True).run())
    for number in range(1, 4):
        await scenario.bus.commit(change(run_event(str(number))), timeout_seconds=5)
        wanted = StoredStep(number, 0.0)
        await eventually(partial(scenario.bus.steps.__contains__, wanted), why="it is not stored")
    running.cancel()
    await asyncio.wait([running])
    assert await scenario.stored_position() == 3


async def test_events_that_are_not_for_people_cause_no_commit(scenario: Scenario) -> None:
    """Events that such an output passes over move its position with the commits of others."""
    running = asyncio.create_task(scenario.delivery(stores_answers_at_once=True).run())
    for number in range(10):
        await scenario.bus.commit(change(detailed_event(str(number))), timeout_seconds=5)
        await scenario.clock.advance(0.1)
    steps = list(scenario.bus.steps)
    running.cancel()
    await asyncio.wait([running])
    assert 1 <= len(steps) <= 3
    assert all(step.linger_seconds > 0 for step in steps)


async def test_a_drain_does_not_wait_for_others(scenario: Scenario) -> None:
    """Once all is acknowledged, the position is stored without any waiting."""
    delivery = scenario.delivery(commit_interval_seconds=1e10)
    running = asyncio.create_task(delivery.run())
    await scenario.bus.commit(change(run_event("1"), run_event("2")), timeout_seconds=5)
    drained = asyncio.create_task(delivery.drain(timeout_seconds=1e9))
    async with asyncio.timeout(10):
        while not drained.done():
            await scenario.clock.advance(0.05)
    assert drained.result()
    assert scenario.bus.steps == [StoredStep(2, 0.0)]
    running.cancel()
    await asyncio.wait([running])


async def test_much_that_is_not_stored_is_stored_at_once(scenario: Scenario) -> None:
    """A receiver that takes thousands of events in a second is not held up by its position."""
    delivery = scenario.delivery(commit_interval_seconds=1e10, uncommitted=40, window=20)
    running = asyncio.create_task(delivery.run())
    events = [run_event(str(number)) for number in range(200)]
    await scenario.bus.commit(change(*events), timeout_seconds=5)
    await eventually(lambda: scenario.receiver.received == 200, why="it is held up")
    running.cancel()
    await asyncio.wait([running])
    assert await scenario.stored_position() == 200
