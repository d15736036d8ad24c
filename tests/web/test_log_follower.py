"""The log is followed while somebody looks at what its events change, and not read otherwise."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import pytest

from monitor.bus.contract import RecordedIn
from monitor.bus.contract.stored_log import Positions
from monitor.model.events import Event
from monitor.web.views.log_follower import FOLLOWED_SECONDS, LogFollower
from tests.app.eventually import eventually
from tests.bus.examples import event
from tests.clocks import ManualClock


class CountedLog:
    """The log of one shard, and how often its events were read."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._grows = asyncio.Event()
        self.reads = 0

    def append(self, number: int) -> None:
        self._events.append(event(number))
        self._grows.set()
        self._grows = asyncio.Event()

    async def positions(self) -> dict[str, int]:
        return {"": len(self._events)}

    async def positions_since(self, recorded_at: datetime) -> dict[str, int]:
        raise NotImplementedError(recorded_at)

    async def events(self, after: Positions, *, limit: int) -> list[RecordedIn]:
        self.reads += 1
        begin = after[""]
        found = self._events[begin : begin + limit]
        return [RecordedIn(place, event) for place, event in enumerate(found, begin + 1)]

    async def wait(self, after: Positions, *, timeout_seconds: float) -> bool:
        if len(self._events) > after[""]:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._grows.wait()
        return len(self._events) > after[""]


class Followed:
    """A follower that runs, and what it has seen."""

    def __init__(self) -> None:
        self.log = CountedLog()
        self.clock = ManualClock()
        self.seen: list[str] = []
        self.follower = LogFollower(self.log, clock=self.clock)
        self.follower.add(self._see)

    def _see(self, events: Sequence[Event]) -> None:
        self.seen += [event.id for event in events]

    async def sees(self, *numbers: int) -> None:
        ids = [event(number).id for number in numbers]
        await eventually(lambda: self.seen == ids, why=f"seen is {self.seen}")


@pytest.fixture
async def followed() -> AsyncIterator[Followed]:
    made = Followed()
    running = asyncio.create_task(made.follower.run())
    yield made
    running.cancel()


async def test_nobody_looks_and_nothing_is_read(followed: Followed) -> None:
    """Events come and go without being read, and who looks later is told of none of them."""
    followed.log.append(1)
    await followed.clock.advance(1_000)
    assert followed.log.reads == 0
    assert await followed.follower.look()
    followed.log.append(2)
    await followed.sees(2)


async def test_who_looks_sees_every_event_behind_that(followed: Followed) -> None:
    """As soon as a look returns nothing is missed, until nobody has looked for a while."""
    assert await followed.follower.look()
    followed.log.append(1)
    await followed.sees(1)
    await followed.clock.advance(FOLLOWED_SECONDS - 1)
    assert await followed.follower.look()
    await followed.clock.advance(FOLLOWED_SECONDS - 1)
    followed.log.append(2)
    await followed.sees(1, 2)
    await followed.clock.advance(2)
    followed.log.append(3)
    await followed.sees(1, 2, 3)
    reads = followed.log.reads
    followed.log.append(4)
    await followed.clock.advance(1)
    assert followed.log.reads == reads
