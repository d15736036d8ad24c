"""Counts the calls into `monitor/` on one path through it, in all threads and tasks.

A path is made of tasks: those whose names it lists, threads beside the event loop's, and what the
loop calls without a task. So what other tasks do at the same time is not counted, whenever they
do it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from msgspec import Struct
from paho.mqtt.client import Client

from tests.paths.lines import PACKAGE, room_of

_PREFIX = f"{PACKAGE}/"
# paho's own way to the socket: whatever is published passes here as bytes.
_SEND: CodeType = Client._sock_send.__code__
# The shard of a workspace is looked up in a directory, or by a view that merges several.
_LOOKUPS = ("ShardDirectory.of", "ShardDirectory.mirrored", "MergedLiveState.")


class TracedPath(Struct, frozen=True):
    """How often each function was entered; a coroutine is entered again when it goes on."""

    functions: Counter[tuple[str, str]]  # (file below the package, qualified name)

    @property
    def calls(self) -> int:
        return self.functions.total()

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.functions}

    @property
    def shard_lookups(self) -> int:
        return sum(
            count for (_, name), count in self.functions.items() if name.startswith(_LOOKUPS)
        )

    def files_by_room(self) -> dict[str, list[str]]:
        """Return the files of each room, in the order of the path's width."""
        rooms: dict[str, list[str]] = {}
        for file in sorted(self.files):
            rooms.setdefault(room_of(PACKAGE / file), []).append(file)
        return dict(sorted(rooms.items(), key=lambda item: -len(item[1])))


class CallTracer:
    """Counts while it is asked to. To be installed before the daemon starts its threads."""

    def __init__(self) -> None:
        self._calls: Counter[CodeType] | None = None  # None: nothing is counted now
        self._tasks: tuple[str, ...] = ()
        self._until: re.Pattern[bytes] | None = None
        self._loop_thread = threading.get_ident()
        self.entered = 0  # into whatever function of the package, on a path or not
        self.is_over = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Be called for each call in all threads that start meanwhile, in this one by `watch`."""
        threading.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def watch(self) -> None:
        """Be called for each call in this thread, until a path has ended."""
        sys.setprofile(self._profile)

    def begin(self, *tasks: str, until: bytes | None = None) -> None:
        """Count from now on what tasks do whose names begin so.

        ``until`` is a pattern: the path is over once bytes that match are sent to the broker.
        """
        self._tasks, self.is_over = tasks, False
        self._until = None if until is None else re.compile(until)
        self._calls = Counter()

    def end(self) -> TracedPath:
        """Return what was counted."""
        sys.setprofile(None)
        counted, self._calls = self._counted, None
        functions: Counter[tuple[str, str]] = Counter()
        for code, count in counted.items():
            file = str(Path(code.co_filename).relative_to(PACKAGE))
            functions[file, code.co_qualname] += count
        return TracedPath(functions)

    @property
    def _counted(self) -> Counter[CodeType]:
        if self._calls is None:
            raise RuntimeError("no path was begun")
        return self._calls

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code, calls = frame.f_code, self._calls
        if code.co_filename.startswith(_PREFIX):
            self.entered += 1
            if calls is not None and not self.is_over and self._is_on_path():
                calls[code] += 1
        elif code is _SEND and self._until is not None and not self.is_over:
            self.is_over = self._until.search(bytes(frame.f_locals["buf"])) is not None

    def _is_on_path(self) -> bool:
        if threading.get_ident() != self._loop_thread:
            return True
        try:
            task = asyncio.current_task()
        except RuntimeError:  # between two turns of the loop
            return False
        return task is None or task.get_name().startswith(self._tasks)
