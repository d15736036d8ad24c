"""Work over many items: in slices, so that no step holds the event loop for long, or at once.

A callback that arrives meanwhile waits for the present slice only; beside a worker thread, only
for the interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from heapq import merge
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

STEP_SECONDS = 0.002  # the longest that a step may hold the event loop
# What one item costs is for its caller to know: `STEP_SECONDS` divided by this is what it may cost.
SLICE = 100


async def in_slices(items: Iterable[T], *, size: int = SLICE) -> AsyncIterator[T]:
    """Yield the items; after every ``size`` of them let other tasks run.

    What others change meanwhile is seen: hand in a copy of what may change its length.
    """
    for number, item in enumerate(items, 1):
        yield item
        if number % size == 0:
            await asyncio.sleep(0)


def pieces_of(items: Sequence[T], *, size: int = SLICE) -> Iterator[Sequence[T]]:
    """Yield the items, so many at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def sorted_in_slices(
    items: Sequence[T], *, key: Callable[[T], Any], size: int = SLICE
) -> list[T]:
    """Return the items in order; equal ones keep theirs."""
    pieces = [
        sorted(piece, key=key) async for piece in in_slices(pieces_of(items, size=size), size=1)
    ]
    return [item async for item in in_slices(merge(*pieces, key=key), size=size)]


async def free_in_slices(held: dict[Any, Any], *, size: int = SLICE) -> None:
    """Empty it. Where it goes out of use at once, the end of all that it holds is one step."""
    async for _ in in_slices(range(len(held)), size=size):
        held.popitem()


async def for_each(
    items: Sequence[T], work: Callable[[T], Awaitable[R]], *, at_once: int, name: str
) -> list[R]:
    """Return the work's results in the order of the items, at most ``at_once`` in progress.

    All work is cancelled with a cancelled call, and by the first that fails.
    """
    room = asyncio.Semaphore(at_once)

    async def bounded(item: T) -> R:
        async with room:
            return await work(item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bounded(item), name=name) for item in items]
    return [task.result() for task in tasks]


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Make tens of thousands of objects without circles in a worker thread.

    Each search for garbage among them would halt every thread for milliseconds.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()
