"""Bounded concurrency."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


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
