"""Callbacks wait for their job records in parallel, and are emitted in the order they came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.inbox import InboxReader
from monitor.callbacks.settings import CallbackSettings
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunState
from monitor.tracking.observer import Observer
from tests.app.eventually import eventually
from tests.callbacks.conftest import polled
from tests.callbacks.test_inbox_reader import arrive, emitted
from tests.clocks import ManualClock

WAIT_SECONDS = 1.0
GATHER_SECONDS = 0.05


@dataclass
class Inbox:
    """A running reader, and the runs whose job records it has requested."""

    bus: SqliteBus
    clock: ManualClock
    requested: set[str] = field(default_factory=set)
    notify: Callable[[], None] = lambda: None

    def wake(self) -> None:
        """Nothing polls here."""

    def must_wait(self, observation: Observation, known: RunState) -> bool:  # noqa: ARG002
        return True

    def complete_later(self, observations: Sequence[Observation]) -> None:  # noqa: ARG002
        raise AssertionError("every end has waited")

    async def complete(self, observations: Sequence[Observation]) -> list[Observation]:
        self.requested.update(observation.key.id for observation in observations)
        if [observation.key.id for observation in observations] != ["8"]:
            await self.clock.sleep(WAIT_SECONDS)
        return list(observations)

    async def confirm(self, _key: RunKey) -> bool | None:
        return None

    async def receive(self, number: int) -> None:
        """Store a callback, and wait until the reader requests its job records."""
        await self.arrive(number)
        await eventually(lambda: str(number) in self.requested, why=f"{number} is not read")
        await self.clock.advance(GATHER_SECONDS)

    async def arrive(self, number: int) -> None:
        await arrive(self.bus, self.clock, number)
        self.notify()

    async def ends(self) -> list[str]:
        return [
            event_id.split(":")[2]
            for event_id in await emitted(self.bus)
            if event_id.endswith(":succeeded")
        ]

    async def until_emitted(self, count: int) -> None:
        async def is_notified() -> bool:
            return len(await self.ends()) >= count

        await eventually(is_notified, why=f"{count} ends are not emitted")


@pytest.fixture
async def inbox(bus: SqliteBus, observer: Observer, clock: ManualClock) -> AsyncIterator[Inbox]:
    """Read an inbox whose job records need a second, except for run 8: they are read at once."""
    inbox = Inbox(bus, clock)

    made = InboxReader(
        "acme",
        settings=CallbackSettings(give_up_seconds=3_600),
        bus=bus,
        observer=observer,
        clock=clock,
        follower=inbox,
        gather_seconds=GATHER_SECONDS,
        batches=3,
    )
    await observer.observe([polled(number, "InProgress", clock) for number in range(1, 10)])
    inbox.notify = made.notify
    running = asyncio.create_task(made.run())
    yield inbox
    running.cancel()
    await asyncio.wait({running})


async def test_a_wait_is_not_added_to_the_wait_of_those_before(inbox: Inbox) -> None:
    """A callback that comes half a second after another is emitted half a second after it."""
    await inbox.receive(1)
    await inbox.clock.advance(WAIT_SECONDS / 2)
    await inbox.receive(2)

    await inbox.clock.advance(WAIT_SECONDS / 2)
    await inbox.until_emitted(1)
    assert await inbox.ends() == ["1"]
    await inbox.clock.advance(WAIT_SECONDS / 2)
    await inbox.until_emitted(2)
    assert await inbox.ends() == ["1", "2"]


async def test_a_callback_that_is_ready_early_is_emitted_after_those_before(inbox: Inbox) -> None:
    """Of two callbacks that disagree about a run's end, the first to come stays the first."""
    await inbox.receive(1)
    await inbox.receive(8)
    assert await inbox.ends() == []

    await inbox.clock.advance(WAIT_SECONDS)
    await inbox.until_emitted(2)
    assert await inbox.ends() == ["1", "8"]


async def test_only_so_many_wait_at_a_time(inbox: Inbox) -> None:
    """A fourth batch begins when the first has ended, and nothing is lost by that."""
    for number in (1, 2, 3):
        await inbox.receive(number)
    await inbox.arrive(4)
    await inbox.clock.advance(WAIT_SECONDS / 2)
    assert inbox.requested == {"1", "2", "3"}

    await inbox.clock.advance(WAIT_SECONDS / 2)
    await inbox.until_emitted(3)
    await eventually(lambda: "4" in inbox.requested, why="the fourth is not read")
    await inbox.clock.advance(WAIT_SECONDS)
    await inbox.until_emitted(4)
    assert await inbox.ends() == ["1", "2", "3", "4"]
