"""Many shards that start together leave time for the heartbeat by which they are held."""

from __future__ import annotations

import asyncio

from monitor.app.start_places import LOOKS, STARTS_AT_ONCE, StartPlaces

_SHARDS = 5 * STARTS_AT_ONCE
_LATE = 1.0  # seconds
_FEW_LOOKS = 10 * STARTS_AT_ONCE  # less than the bound of each


class StartingShards:
    """Shards that wait for their places, on a loop that is as late as the test says."""

    def __init__(self, *, late_looks: float = float("inf")) -> None:
        """The loop is behind for so many looks."""
        self.started_behind = 0
        self._late_looks = late_looks
        self.may_go_on = asyncio.Event()
        self.looks = 0  # at the time of the loop
        self.started = 0
        self._places = StartPlaces(first_polls_seconds=0.001, monotonic=self._monotonic)
        self._time = 0.0
        self.tasks = [asyncio.create_task(self._start()) for _ in range(_SHARDS)]

    def _monotonic(self) -> float:
        self.looks += 1
        if self.looks <= self._late_looks:
            self._time += _LATE
            self.started_behind = self.started
        return self._time

    async def _start(self) -> None:
        place = await self._places.take()
        self.started += 1
        await self.may_go_on.wait()
        place.leave()
        place.leave()  # as when it fails after its start


async def test_few_shards_start_at_a_time() -> None:
    """What they read waits in a line, which would grow past every time-out; the next ones wait."""
    shards = StartingShards(late_looks=0)
    await asyncio.wait(shards.tasks, timeout=0.05)
    started_first = shards.started
    shards.may_go_on.set()
    await asyncio.gather(*shards.tasks)

    assert started_first == STARTS_AT_ONCE
    assert shards.started == _SHARDS


async def test_a_place_that_was_not_used_is_free_at_once() -> None:
    """A daemon that ends while many shards wait for their start ends soon."""
    places = StartPlaces(first_polls_seconds=1_000.0)
    for _ in range(2 * STARTS_AT_ONCE):
        place = await places.take()
        place.leave(is_unused=True)


async def test_no_shard_starts_while_the_loop_is_behind() -> None:
    """The first few start; the others do as soon as the loop keeps up, however many they are."""
    shards = StartingShards(late_looks=_FEW_LOOKS)
    shards.may_go_on.set()
    await asyncio.gather(*shards.tasks)

    assert shards.started_behind == STARTS_AT_ONCE
    assert shards.started == _SHARDS


async def test_a_loop_that_stays_behind_holds_nobody_up_for_ever() -> None:
    """Where others take the processor, a few start after some seconds, and again."""
    shards = StartingShards()
    shards.may_go_on.set()
    await asyncio.gather(*shards.tasks)

    assert shards.started == _SHARDS
    assert shards.looks > (_SHARDS - STARTS_AT_ONCE) * LOOKS
