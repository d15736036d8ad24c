"""Counts what one turn of the event loop does, so that no test of it depends on a clock."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable
from types import FrameType
from typing import Any

from msgspec import Struct


class Turn(Struct, frozen=True):
    """One turn of the loop: how many Python calls it made, and the functions called most."""

    calls: int
    most: tuple[tuple[str, int], ...]


async def longest_turn(work: Awaitable[Any]) -> Turn:
    """Return the turn with the most Python calls while ``work`` runs.

    Each resumption of a generator is a call too, so work over many items shows.
    """
    loop = asyncio.get_running_loop()
    counts: Counter[Any] = Counter()
    longest = Turn(0, ())
    is_over = False

    def count(frame: FrameType, _event: str, _: object) -> None:
        counts[frame.f_code] += 1  # no more than the call: nothing traces what is in it

    def turn() -> None:
        nonlocal longest
        sys.settrace(None)
        calls = counts.total()
        if calls > longest.calls:
            most = tuple(
                (f"{code.co_filename.rpartition('/')[2]}:{code.co_name}", number)
                for code, number in counts.most_common(6)
            )
            longest = Turn(calls, most)
        counts.clear()
        if not is_over:
            loop.call_soon(turn)
            sys.settrace(count)

    loop.call_soon(turn)
    sys.settrace(count)
    try:
        await work
    finally:
        sys.settrace(None)
        is_over = True
    turn()
    return longest
