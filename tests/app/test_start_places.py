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
        await self._places.take()
        self.started += 1


async def test_no_shard_starts_while_the_loop_is_behind() -> None:
    """The first few start; the others do as soon as the loop keeps up, however many they are."""
    shards = StartingShards(late_looks=_FEW_LOOKS)
    await asyncio.gather(*shards.tasks)

    assert shards.started_behind == STARTS_AT_ONCE
    assert shards.started == _SHARDS


async def test_a_loop_that_stays_behind_holds_nobody_up_for_ever() -> None:
    """Where others take the processor, a few start after some seconds, and again."""
    shards = StartingShards()
    await asyncio.gather(*shards.tasks)

    assert shards.started == _SHARDS
    assert shards.looks > (_SHARDS - STARTS_AT_ONCE) * LOOKS
