"""Commits that no cancellation interrupts, so that what is committed is also learned."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from monitor.model.errors import MonitorError

T = TypeVar("T")


class UncancelledWork:
    """Runs work in tasks of its own, and keeps the first failure that is no `MonitorError`."""

    def __init__(self) -> None:
        self._failure: BaseException | None = None
        self._has_failed = asyncio.Event()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``work``.

        A caller that is cancelled is kept waiting, no longer than a commit may take.
        """
        # In no task group: a group would cancel the commit together with its caller.
        task = asyncio.create_task(work, name="observer: commit")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            while not task.done():
                # Whoever is cancelled may be cancelled again, by a group and by its owner.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([task])
            raise
        finally:
            failure = task.exception() if task.done() and not task.cancelled() else None
            if failure is not None and not isinstance(failure, MonitorError):
                self._keep(failure)

    async def run_here(self, work: Awaitable[T]) -> T:
        """Return the result of ``work`` in a task that nobody cancels."""
        try:
            return await work
        except MonitorError:
            raise
        except Exception as exc:
            self._keep(exc)
            raise

    def _keep(self, failure: BaseException) -> None:
        self._failure = self._failure or failure
        self._has_failed.set()

    async def watch(self) -> None:
        """Wait for such a failure and raise it. A cancelled call changes nothing."""
        await self._has_failed.wait()
        if self._failure is not None:
            raise self._failure
