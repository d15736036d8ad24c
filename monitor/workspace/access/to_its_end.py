"""Waits for a refresh even while it is cancelled: its answer exists once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger()


async def to_its_end(
    refresh: Coroutine[Any, Any, None], ending: asyncio.Event, workspace: str
) -> None:
    """Wait for a refresh, which has time limits; a cancelled call sets ``ending`` and waits on."""
    task = asyncio.create_task(refresh, name=f"{workspace}: refresh")
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        ending.set()
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("refresh ended", workspace=workspace, reason=str(error))
        raise
