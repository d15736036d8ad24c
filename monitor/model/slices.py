"""Work over many items in slices, so that no step of it holds the event loop for long.

A callback that arrives meanwhile waits for the present slice only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

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
