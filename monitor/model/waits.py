"""Waits on a given clock: backoff, and an event or a time limit, whichever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from monitor.model.clock import Clock

_DOUBLINGS = 60


def backoff_seconds(attempt: int, *, base_seconds: float, cap_seconds: float) -> float:
    """Return the wait behind the failed ``attempt``, which counts from 1. Adds no jitter."""
    # Bounded, because a weekend of attempts would overflow a float.
    return min(base_seconds * 2.0 ** min(max(attempt - 1, 0), _DOUBLINGS), cap_seconds)


async def happens_within(
    happening: Coroutine[Any, Any, object], *, clock: Clock, seconds: float, name: str
) -> bool:
    """Wait until ``happening`` returns, at most ``seconds``; False where time ran out.

    ``happening`` is cancelled when time runs out, and with a cancelled call; so it must leave
    nothing half done, as `asyncio.Event.wait` does. What it raises is raised here.
    """
    # No task group: it would hide a failure in an exception group.
    happened = asyncio.create_task(happening, name=name)
    timer = asyncio.create_task(clock.sleep(seconds), name=f"{name}: time limit")
    try:
        await asyncio.wait((happened, timer), return_when=asyncio.FIRST_COMPLETED)
        if happened.done():
            happened.result()
            return True
        return False
    finally:
        for task in (happened, timer):
            task.cancel()
        await asyncio.gather(happened, timer, return_exceptions=True)
