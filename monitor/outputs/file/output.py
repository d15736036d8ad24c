"""Writes events to a file, one CloudEvent a line; a position follows what is durable there.

The tasks ``write`` and ``watch`` use the file by turns, each in a worker thread. ``write`` takes
what `send` has queued. After a failure nothing is written until the delivery has called `ready`, so
that no event comes before one that failed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog

from monitor.bus.contract import Recorded
from monitor.model.checks import CheckLine, failed, ok
from monitor.model.clock import Clock
from monitor.model.errors import OutputRefusedError, OutputUnavailableError
from monitor.outputs.cloudevents import encode, message_of
from monitor.outputs.event_output import EventOutput, OutputParts, Run, give_answer
from monitor.outputs.file.path_checks import path_problem
from monitor.outputs.file.rotating_file import RotatingFile
from monitor.outputs.file.settings import FILE, FileSettings

log = structlog.get_logger()

T = TypeVar("T")

_WATCH_SECONDS = 5.0  # between two examinations of the file
_LAST_WRITE_SECONDS = 5.0  # for a disk that hangs when the output ends


class FileOutput(EventOutput):
    """One file. A disk that takes nothing is tried again."""

    record = FILE

    def __init__(self, settings: FileSettings, parts: OutputParts) -> None:
        super().__init__(settings, parts)
        settings = msgspec.structs.replace(settings, path=_path_of(settings, parts.bus.shard))
        self._path = settings.path
        self._file = RotatingFile(settings, now=parts.clock.now, may_write=parts.bus.may_publish)
        self._turn = asyncio.Lock()
        self._queue: deque[tuple[bytes, asyncio.Future[None]]] = deque()  # the window bounds it
        self._has_work = asyncio.Event()
        self._failure: OutputUnavailableError | None = None  # of what was to be written last
        self._is_failing = False  # until the delivery starts again
        self._obstacle: str | None = None  # found by ``watch``

    @staticmethod
    def path_problems(settings: FileSettings) -> list[str]:
        problem = path_problem(Path(settings.path))
        return [] if problem is None else [f"path: {problem}"]

    @staticmethod
    async def check(settings: FileSettings, *, clock: Clock) -> list[CheckLine]:  # noqa: ARG004 - nothing has a date
        problem = await asyncio.to_thread(path_problem, Path(settings.path))
        if problem is None:
            return [ok(FILE.section, f"{settings.path} can be written; nothing was written")]
        found, _, hint = problem.partition("; ")
        return [failed(FILE.section, f"{settings.path}: {found}", hint)]

    @property
    def is_well(self) -> bool:
        """False while the file cannot be written."""
        return self._failure is None and self._obstacle is None

    @property
    def status(self) -> str:
        """One sentence for people: whether it is written, or why not."""
        if self.is_well:
            return f"writes {self._path}"
        return f"{self._path} cannot be written: {self._failure or self._obstacle}"

    async def _tasks(self) -> dict[str, Run]:
        return {"write": self._write, "watch": self._watch}

    async def _close(self) -> None:
        self._answer_all(OutputUnavailableError("stopped"))
        await self._by_turns(self._file.close)

    # --- what the delivery calls ---

    async def ready(self) -> None:
        """Return at once: whether the disk takes something, only writing shows."""
        self._is_failing = False

    def send(self, recorded: Recorded) -> asyncio.Future[None] | None:
        """Queue one event; None for a type that the settings do not select."""
        if recorded.event.type not in self.types:
            return None
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            line = encode(
                message_of(recorded.event, position=recorded.position, epoch=recorded.epoch)
            )
        except OutputRefusedError as exc:
            answer.set_exception(exc)
            return answer
        self._queue.append((line, answer))
        if self._is_failing and self._failure is not None:
            self._answer_all(self._failure)
        self._has_work.set()
        return answer

    # --- the file ---

    async def _write(self) -> None:
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while self._queue:
                await self._write_some()

    async def _write_some(self) -> None:
        lines = [line for line, _ in self._queue]
        try:
            count = await self._by_turns(self._file.append, lines)
        except OutputUnavailableError as exc:
            if self._failure is None:
                log.warning("file cannot be written", path=self._path, reason=str(exc))
            self._failure, self._is_failing = exc, True
            self._answer_all(exc)
            return
        self._failure = self._obstacle = None
        for _ in range(count):
            give_answer(self._queue.popleft()[1], None)

    async def _watch(self) -> None:
        """Notice what hinders before an event comes, and what moved the file away."""
        while True:
            try:
                await self._by_turns(self._file.examine)
                self._obstacle = None
            except OutputUnavailableError as exc:
                if self._obstacle is None:
                    log.warning("file cannot be opened", path=self._path, reason=str(exc))
                self._obstacle = str(exc)
            await self._clock.sleep(_WATCH_SECONDS)

    def _answer_all(self, failure: OutputUnavailableError) -> None:
        while self._queue:
            give_answer(self._queue.popleft()[1], failure)

    async def _by_turns(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call what blocks in a thread, one call at a time."""
        async with self._turn:
            working = asyncio.create_task(
                asyncio.to_thread(call, *arguments), name=f"{self.name}: thread"
            )
            try:
                return await asyncio.shield(working)
            except asyncio.CancelledError:
                # A thread cannot be cancelled, and no other may write beside it.
                done, _ = await asyncio.wait([working], timeout=_LAST_WRITE_SECONDS)
                for ended in done:
                    ended.exception()  # its caller is gone
                raise


def _path_of(settings: FileSettings, shard: str) -> str:
    """Return where a shard writes; those that have a name would rotate a common file."""
    path = Path(settings.path)
    return str(path.with_stem(f"{path.stem}-{shard}") if shard else path)
