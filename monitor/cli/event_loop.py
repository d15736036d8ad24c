"""The event loop that the daemon runs on: uvloop where it is installed, else Python's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_factory(*, may_be_uvloop: bool) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes the loop of an `asyncio.Runner`."""
    if may_be_uvloop:
        try:
            import uvloop  # noqa: PLC0415 - only the daemon pays for it, and not every platform has it
        except ImportError:
            return asyncio.new_event_loop
        return uvloop.new_event_loop
    return asyncio.new_event_loop
