"""Work on what is known of a workspace, piece by piece, which no cancellation interrupts.

In turns, because runs of one workspace share their pipelines' health. Each workspace at work has
one task, which is never cancelled, so that what is committed is also learned: a caller that is
cancelled while its work is under way waits for its end, no longer than a commit may take. Work
that has not begun by then is not done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from monitor.model.errors import MonitorError

T = TypeVar("T")


class _Work(Generic[T]):
    """One piece of work, from its arrival to its end."""

    __slots__ = ("answer", "has_begun", "run")

    def __init__(self, run: Callable[[], Awaitable[T]]) -> None:
        self.run = run
        self.has_begun = False
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def fail(self, error: Exception) -> None:
        self.answer.set_exception(error)
        self.answer.exception()  # the caller of `begin` may not ask how it ended


class SerialWork:
    """Runs the work of each workspace in the order of its arrival.

    Keeps the first failure that is no `MonitorError`, for `watch`.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[_Work[Any]]] = {}  # of each workspace that is at work
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: Exception | None = None
        self._has_failed = asyncio.Event()

    async def watch(self) -> None:
        """Wait for such a failure and raise it. A cancelled call changes nothing."""
        await self._has_failed.wait()
        if self._failure is not None:
            raise self._failure

    async def run(self, workspace: str, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``work``, which begins when all before it has ended."""
        piece = self._add(workspace, work)
        try:
            return await asyncio.shield(piece.answer)
        except asyncio.CancelledError:
            if not piece.has_begun:
                piece.answer.cancel()
            while not piece.answer.done():
                # A cancelled caller may be cancelled again, by a group and by its owner.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((piece.answer,))
            raise

    def begin(self, workspace: str, work: Callable[[], Awaitable[T]]) -> asyncio.Future[T]:
        """Let ``work`` begin when all before it has ended. Its end need not be awaited."""
        return self._add(workspace, work).answer

    def _add(self, workspace: str, work: Callable[[], Awaitable[T]]) -> _Work[T]:
        piece = _Work(work)
        waiting = self._waiting.get(workspace)
        if waiting is not None:
            waiting.append(piece)
            return piece
        self._waiting[workspace] = deque((piece,))
        task = asyncio.create_task(self._work(workspace), name=f"observer: {workspace}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return piece

    async def _work(self, workspace: str) -> None:
        waiting = self._waiting[workspace]
        piece: _Work[Any] | None = None
        try:
            while waiting:
                piece = waiting.popleft()
                if not piece.answer.done():
                    piece.has_begun = True
                    await self._end(piece)
        finally:
            del self._waiting[workspace]
            for unfinished in (piece, *waiting):  # only where this task was cancelled
                if unfinished is not None:
                    unfinished.answer.cancel()

    async def _end(self, piece: _Work[Any]) -> None:
        try:
            result = await piece.run()
        except MonitorError as exc:
            piece.fail(exc)
        except Exception as exc:  # noqa: BLE001 - `watch` raises it
            self._failure = self._failure or exc
            self._has_failed.set()
            piece.fail(exc)
        else:
            piece.answer.set_result(result)
