"""Waits for what a whole daemon will do: a condition checked repeatedly, for a bounded time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

import pytest

LIMIT_SECONDS = 90.0  # for what takes seconds, on a slow machine that does something else
_CHECK_SECONDS = 0.05


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]],
    *,
    why: Callable[[], object] | str,
    within_seconds: float = LIMIT_SECONDS,
) -> None:
    """Return when ``condition`` holds; fail with ``why`` when the time is over."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within_seconds
    while True:
        answer = condition()
        if (await answer) if inspect.isawaitable(answer) else answer:
            return
        if loop.time() >= end:
            pytest.fail(
                f"not within {within_seconds:.0f} s: {why if isinstance(why, str) else why()}"
            )
        await pause(_CHECK_SECONDS)


async def pause(seconds: float) -> None:
    """Leave the loop to others for a moment, without spinning."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, _end, over)
    try:
        await over
    finally:
        timer.cancel()


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():  # the waiting task may have been cancelled in this turn of the loop
        over.set_result(None)
