"""Run as a process of its own: observes the same runs while the store fails at each step.

A step is one statement of the store's writer. For each of them, until a life gets by without
coming so far, a fresh store is used in a fork of this process: at that step the process is killed,
or the disk is full from then on, or another process locks the file if it can still be locked. What
was not stored is sent again, as a poll and a sender do. Arguments: a folder, and the failure.
Prints one JSON `Report` for each step.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sqlite3
import sys
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry, Histogram

from monitor.bus.contract import StateEntry
from monitor.bus.log_tail import LogTail
from monitor.bus.settings import StorageSettings
from monitor.bus.sqlite import SqliteBus
from monitor.bus.sqlite.connection import StoreConnection, connect, connect_reading
from monitor.bus.sqlite.inbox import RecentCallbacks
from monitor.bus.sqlite.lock import StoreLock
from monitor.bus.sqlite.log import newest_position
from monitor.bus.sqlite.reader import StoreReader
from monitor.bus.sqlite.upgrade import prepare
from monitor.bus.sqlite.writer import StoreWriter
from monitor.bus.write_queue import WriteFailureRecord
from monitor.model.errors import BusUnavailableError
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, Source
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.tracking.settings import TrackingSettings
from tests.bus.examples import SOON, at, callback
from tests.clocks import ManualClock

WORKSPACE = "marketing"
_SHORT_SECONDS = 0.05


class Report(Struct, frozen=True, kw_only=True):
    """The contents of a store at the end, and the steps that led there."""

    has_come: bool  # the failure, or the life was over before
    failures: int
    log: list[str]
    waiting: int
    watermark: str


class Failure:
    """Counts the writer's statements and makes the store fail at one of them."""

    def __init__(self, path: Path, word: str, step: int) -> None:
        self._path = path
        self._word = word
        self._step = step  # 0 never comes
        self._count = 0
        self._locking: sqlite3.Connection | None = None
        self.has_come = False

    def connect(self) -> StoreConnection:
        """Open the file for the writer."""
        db = connect(self._path)
        db.set_trace_callback(self._count_statement)
        return db

    def _count_statement(self, _: str) -> None:
        self._count += 1
        if self._count == self._step:
            self.has_come = True
            {"kill": self._kill, "full": self._fill, "locked": self._lock}[self._word]()

    def _kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _fill(self) -> None:
        _limit_files(1)

    def _lock(self) -> None:
        locking = sqlite3.connect(
            self._path, isolation_level=None, timeout=0, check_same_thread=False
        )
        try:
            locking.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            locking.close()  # the writer has locked it already
        else:
            self._locking = locking

    def end(self) -> None:
        """Let the store work again."""
        _limit_files(resource.RLIM_INFINITY)
        if self._locking is not None:
            self._locking.close()
            self._locking = None


def _limit_files(size: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


def observation(number: int, word: str, *, inbox_id: int | None = None) -> Observation:
    return Observation(
        key=RunKey(WORKSPACE, RunKind.JOB_GROUP, str(number)),
        source=Source.POLL if inbox_id is None else Source.CALLBACK,
        observed_at=at(60),
        native_status=word,
        created_at=at(number),
        updated_at=at(60),
        inbox_id=inbox_id,
    )


def watermark(value: str) -> StateEntry:
    return StateEntry(workspace=WORKSPACE, topic="watermark", key="changes", value=value.encode())


class Life:
    """A process of a daemon on the store, which observes the whole history from its start."""

    def __init__(self, bus: SqliteBus, clock: ManualClock, failure: Failure) -> None:
        self._bus = bus
        self._failure = failure
        self._observer = Observer(
            bus=bus,
            live_state=LiveState([WORKSPACE]),
            clock=clock,
            registry=CollectorRegistry(),
            settings=TrackingSettings(commit_timeout_seconds=_SHORT_SECONDS),
        )
        self.failures = 0

    async def live(self) -> None:
        await self._observer.open(WORKSPACE)
        for step in (self._begin, self._receive, self._work, self._process, self._end):
            await self._until_stored(step)

    async def _until_stored(self, step: Callable[[], Awaitable[object]]) -> None:
        while True:  # a slow disk may need many of the short waits; `live` ends after `SOON`
            try:
                await step()
            except BusUnavailableError:
                self.failures += 1
                self._failure.end()
            else:
                return

    async def _begin(self) -> None:
        await self._observer.observe([observation(1, "Created"), observation(2, "Created")])

    async def _receive(self) -> None:
        await self._bus.receive(callback(1), inbox_bound=10, timeout_seconds=_SHORT_SECONDS)

    async def _work(self) -> None:
        observations = [observation(1, "InProgress"), observation(2, "InProgress")]
        await self._observer.observe(observations, state_entries=[watermark("work")])

    async def _process(self) -> None:
        for stored in (await self._bus.inbox(WORKSPACE, limit=10)).callbacks:
            await self._observer.observe([observation(1, "Complete", inbox_id=stored.id)])

    async def _end(self) -> None:
        observations = [observation(1, "Complete"), observation(2, "Failed")]
        await self._observer.observe(observations, state_entries=[watermark("end")])


async def open_bus(path: Path, clock: ManualClock, failure: Failure) -> SqliteBus:
    """Build the store as `SqliteBus.open` does, save for the writer's connection."""
    lock = StoreLock(path, now=clock.now())
    prepare(lock.store)
    reader = StoreReader(partial(connect_reading, path), timeout_seconds=SOON)
    tail = LogTail(await reader.run(newest_position))
    failures = WriteFailureRecord(clock, CollectorRegistry())
    writer = StoreWriter(
        failure.connect,
        clock=clock,
        durations=Histogram("duration", "Of a transaction.", registry=CollectorRegistry()),
        on_commit=lambda news: tail.append(news.events) if news.events else None,
        verify=lambda: None,
        failures=failures,
        queue_bound=10,
        stall_seconds=SOON,
    )
    return SqliteBus(
        lock=lock,
        writer=writer,
        reader=reader,
        tail=tail,
        arrivals=RecentCallbacks(),
        failures=failures,
        clock=clock,
        settings=StorageSettings(),
    )


async def live(path: Path, failure: Failure) -> Report:
    clock = ManualClock()
    bus = await open_bus(path, clock, failure)
    life = Life(bus, clock, failure)
    async with asyncio.timeout(SOON):
        await life.live()
    failure.end()
    log = [event.event.id for event in await bus.events(after=0, limit=100)]
    state_entries = await bus.state_entries(WORKSPACE, "watermark")
    waiting = len((await bus.inbox(WORKSPACE, limit=10)).callbacks)
    await bus.close()
    return Report(
        has_come=failure.has_come,
        failures=life.failures,
        log=log,
        waiting=waiting,
        watermark=state_entries["changes"].decode(),
    )


def life_of(path: Path, word: str, step: int) -> Report | None:
    """Run a life in a fork; return what the store has at its end, None when it was killed."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        failure = Failure(path, word, step)
        try:
            os.write(writing, msgspec.json.encode(asyncio.run(live(path, failure))))
        except BaseException:  # noqa: BLE001 - a fork must not continue as its parent
            traceback.print_exc()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if code == -signal.SIGKILL:
        return None
    return msgspec.json.decode(answer, type=Report)


def main(folder: Path, word: str) -> None:
    step, has_come = 0, True
    while has_come:
        step += 1
        path = folder / f"{word}-{step}.db"
        report = life_of(path, word, step)
        has_come = report is None or report.has_come
        # A killed life is started again, and nothing fails then.
        report = report or life_of(path, word, 0)
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
