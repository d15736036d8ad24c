"""Work in slices lets other tasks run in between."""

from __future__ import annotations

import asyncio

import pytest

from monitor.model.slices import in_slices


@pytest.mark.parametrize(("count", "size", "pauses"), [(0, 10, 0), (9, 10, 0), (100, 10, 10)])
async def test_another_task_has_its_turn_after_each_slice(
    count: int, size: int, pauses: int
) -> None:
    """Between two slices, and only there, another task of the loop runs."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    taken = [item async for item in in_slices(range(count), size=size)]
    assert taken == list(range(count))
    running = asyncio.create_task(other(), name="other")
    seen = [turns async for _ in in_slices(range(count), size=size)]
    running.cancel()
    assert max(seen, default=0) <= pauses
    for start in range(0, count, size):
        assert len(set(seen[start : start + size])) == 1
        assert seen[start] == start // size
