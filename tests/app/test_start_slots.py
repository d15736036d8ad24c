"""Many shards that start together leave time for the heartbeat by which they are held."""

from __future__ import annotations

import asyncio

from monitor.app.hosted.start_slots import CHECKS, STARTS_AT_ONCE, StartSlots

_SHARDS = 5 * STARTS_AT_ONCE
_LATE = 1.0  # seconds
_FEW_CHECKS = 10 * STARTS_AT_ONCE  # less than the bound of each


class StartingShards:
    """Shards that wait for their slots, on a loop that is as late as the test says."""

    def __init__(self, *, late_checks: float = float("inf")) -> None:
        """The loop is behind for so many checks."""
        self.started_behind = 0
        self._late_checks = late_checks
        self.may_go_on = asyncio.Event()
        self.checks = 0  # at the time of the loop
        self.started = 0
        self._slots = StartSlots(first_polls_seconds=0.001, monotonic=self._monotonic)
        self._time = 0.0
        self.tasks = [asyncio.create_task(self._start()) for _ in range(_SHARDS)]

    def _monotonic(self) -> float:
        self.checks += 1
        if self.checks <= self._late_checks:
            self._time += _LATE
            self.started_behind = self.started
        return self._time

    async def _start(self) -> None:
        slot = await self._slots.take()
        self.started += 1
        await self.may_go_on.wait()
        slot.leave()
        slot.leave()  # as when it fails after its start


async def test_few_shards_start_at_a_time() -> None:
    """The shards that start read in a line, which would grow past every time-out; others wait."""
    shards = StartingShards(late_checks=0)
    await asyncio.wait(shards.tasks, timeout=0.05)
    started_first = shards.started
    shards.may_go_on.set()
    await asyncio.gather(*shards.tasks)

    assert started_first == STARTS_AT_ONCE
    assert shards.started == _SHARDS


async def test_a_place_that_was_not_used_is_free_at_once() -> None:
    """A daemon that ends while many shards wait for their start ends soon."""
    slots = StartSlots(first_polls_seconds=1_000.0)
    for _ in range(2 * STARTS_AT_ONCE):
        slot = await slots.take()
        slot.leave(is_unused=True)


async def test_no_shard_starts_while_the_loop_lags() -> None:
    """The first few start; the others do as soon as the loop keeps up, however many they are."""
    shards = StartingShards(late_checks=_FEW_CHECKS)
    shards.may_go_on.set()
    await asyncio.gather(*shards.tasks)

    assert shards.started_behind == STARTS_AT_ONCE
    assert shards.started == _SHARDS


async def test_a_loop_that_stays_late_delays_no_start_without_limit() -> None:
    """Where others take the processor, a few start after some seconds, and again."""
    shards = StartingShards()
    shards.may_go_on.set()
    await asyncio.gather(*shards.tasks)

    assert shards.started == _SHARDS
    assert shards.checks > (_SHARDS - STARTS_AT_ONCE) * CHECKS
