"""Callbacks wait for their job records beside each other, and are told in the order they came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.inbox import InboxReader
from monitor.callbacks.settings import CallbackSettings
from monitor.model.observations import Observation
from monitor.model.runs import RunKey
from monitor.tracking.observer import Observer
from tests.app.eventually import eventually
from tests.callbacks.conftest import polled
from tests.callbacks.test_inbox_reader import arrive, told
from tests.clocks import ManualClock

WAIT_SECONDS = 1.0
GATHER_SECONDS = 0.05


@dataclass
class Inbox:
    """A reader at work, and the runs whose job records it has asked for."""

    bus: SqliteBus
    clock: ManualClock
    asked: set[str] = field(default_factory=set)
    notify: Callable[[], None] = lambda: None

    def wake(self) -> None:
        """Nothing polls here."""

    async def complete(self, observations: Sequence[Observation]) -> list[Observation]:
        self.asked.update(observation.key.id for observation in observations)
        if [observation.key.id for observation in observations] != ["8"]:
            await self.clock.sleep(WAIT_SECONDS)
        return list(observations)

    async def confirm(self, _key: RunKey) -> bool | None:
        return None

    async def take_in(self, number: int) -> None:
        """Let a callback arrive, and be gathered with whatever came just before."""
        await self.arrive(number)
        await eventually(lambda: str(number) in self.asked, why=f"{number} is not taken")
        await self.clock.advance(GATHER_SECONDS)

    async def arrive(self, number: int) -> None:
        await arrive(self.bus, self.clock, number)
        self.notify()

    async def ends(self) -> list[str]:
        return [item.split(":")[2] for item in await told(self.bus) if item.endswith(":succeeded")]

    async def until_told(self, count: int) -> None:
        async def is_notified() -> bool:
            return len(await self.ends()) >= count

        await eventually(is_notified, why=f"{count} ends are not told")


@pytest.fixture
async def inbox(bus: SqliteBus, observer: Observer, clock: ManualClock) -> AsyncIterator[Inbox]:
    """Read an inbox whose job records take a second, except for run 8: it has them at once."""
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
    """One that comes half a second after another is told half a second after it."""
    await inbox.take_in(1)
    await inbox.clock.advance(WAIT_SECONDS / 2)
    await inbox.take_in(2)

    await inbox.clock.advance(WAIT_SECONDS / 2)
    await inbox.until_told(1)
    assert await inbox.ends() == ["1"]
    await inbox.clock.advance(WAIT_SECONDS / 2)
    await inbox.until_told(2)
    assert await inbox.ends() == ["1", "2"]


async def test_who_is_ready_early_is_told_behind_those_before(inbox: Inbox) -> None:
    """Of two that say different ends of one run, the first to come must stay the first."""
    await inbox.take_in(1)
    await inbox.take_in(8)
    assert await inbox.ends() == []

    await inbox.clock.advance(WAIT_SECONDS)
    await inbox.until_told(2)
    assert await inbox.ends() == ["1", "8"]


async def test_only_so_many_wait_at_a_time(inbox: Inbox) -> None:
    """A fourth batch begins when the first has ended, and nothing is lost by that."""
    for number in (1, 2, 3):
        await inbox.take_in(number)
    await inbox.arrive(4)
    await inbox.clock.advance(WAIT_SECONDS / 2)
    assert inbox.asked == {"1", "2", "3"}

    await inbox.clock.advance(WAIT_SECONDS / 2)
    await inbox.until_told(3)
    await eventually(lambda: "4" in inbox.asked, why="the fourth is not taken")
    await inbox.clock.advance(WAIT_SECONDS)
    await inbox.until_told(4)
    assert await inbox.ends() == ["1", "2", "3", "4"]
