"""One thread writes. Whatever is queued when it is free goes into one transaction.

The queue belongs to the event loop; the connection belongs to the thread; a group of jobs belongs
to the thread while it runs. A job is claimed when the transaction has been opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import structlog
from prometheus_client import Histogram

from monitor.bus.sqlite.connection import (
    CommitNews,
    StoreConnection,
    is_busy,
    is_damaged,
    unavailable,
)
from monitor.bus.write_queue import WriteFailureRecord, WriteGroup, WriteJob, WriteQueue
from monitor.model.clock import Clock
from monitor.model.errors import BusError, BusLostError, BusUnavailableError

log = structlog.get_logger()

Input = TypeVar("Input")
T = TypeVar("T")
Work = Callable[[StoreConnection, Sequence[Input]], Sequence[T]]

# Errors of one job and not of the store; the rest of the group is not affected.
_JOB_ERRORS = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    OverflowError,
    UnicodeEncodeError,
    BusError,
)


class _Outcome(NamedTuple):
    """How a transaction ended; neither news nor failure where its caller has given up."""

    news: CommitNews | None = None
    failure: str | None = None
    has_stored: bool = False  # it changed something, and not only a probe


class StoreWriter:
    """Runs writes in the order of their arrival, many to a transaction."""

    def __init__(
        self,
        connect: Callable[[], StoreConnection],
        *,
        clock: Clock,
        durations: Histogram,
        on_commit: Callable[[CommitNews], None],
        verify: Callable[[], None],
        failures: WriteFailureRecord,
        queue_bound: int,
        stall_seconds: float,
    ) -> None:
        """Call ``on_commit`` on the loop after each commit, before its callers go on.

        ``verify`` is called in the thread after each commit, and raises when the file is not ours
        any more. The writer dies of what either raises, and no caller learns of the commit.
        """
        self._connect = connect
        self._clock = clock
        self._durations = durations
        self._on_commit = on_commit
        self._verify = verify
        self._stall_seconds = stall_seconds
        self._loop = asyncio.get_running_loop()
        self._handed: SimpleQueue[WriteGroup | None] = SimpleQueue()  # None: the thread ends
        self._jobs = WriteQueue(
            bound=queue_bound,
            failures=failures,
            on_group=self._handed.put,
            on_late=self._await_end,
        )
        self._has_dropped = asyncio.Event()
        # A daemon thread: one that hangs on its disk must not keep the process from ending.
        threading.Thread(target=self._serve, name="store-writer", daemon=True).start()
        self._db: StoreConnection | None = None
        self._is_closed = False
        self._ended = asyncio.Event()
        self._death: BaseException | None = None
        self._failed_transactions = 0
        self._failures = failures

    async def write(
        self,
        work: Work[Input, T],
        given: Input,
        *,
        timeout_seconds: float,
        linger_seconds: float = 0.0,
        is_probe: bool = False,
    ) -> T:
        """Run ``work`` in the writer's thread and return its result once that is durable.

        ``work`` is called with all that is given to it at the time, in order, and returns a result
        for each. It may be called again after what it did has been rolled back. A caller that is
        cancelled does not learn whether a claimed write was kept. A probe counts in
        ``failures`` neither as stored nor as refused. With ``linger_seconds`` the write goes with
        the next one that has none, and by itself only after that time.

        Raises:
            BusUnavailableError: nothing of it was kept.
        """
        if self._is_closed:
            raise BusUnavailableError("the store is closed")
        if self._death is not None:
            raise self._died() from self._death
        return await self._jobs.write(
            WriteJob(work, given, is_probe=is_probe),
            timeout_seconds=timeout_seconds,
            linger_seconds=linger_seconds,
        )

    async def watch(self) -> None:
        """Return when the writer was closed.

        Raises:
            BusUnavailableError: the writer has died; nothing will be stored any more.
        """
        await self._ended.wait()
        if self._death is not None:
            raise self._died() from self._death

    async def close(self) -> None:
        """Finish what is queued, then close the connection. A hung writer is left behind."""
        self._is_closed = True
        try:
            async with asyncio.timeout(self._stall_seconds):
                await self._jobs.drain()
        except TimeoutError:
            self.die(TimeoutError("it did not finish what was queued"))
        self._ended.set()
        self._jobs.stop_timer()
        self._handed.put(None)
        if isinstance(self._death, TimeoutError):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._stall_seconds):
                await self._has_dropped.wait()

    @property
    def is_alive(self) -> bool:
        """False once nothing will be stored any more."""
        return self._death is None

    def _await_end(self, job: WriteJob[Any]) -> None:
        self._loop.call_later(self._stall_seconds, self._check_stall, job)

    def _check_stall(self, job: WriteJob[Any]) -> None:
        if not job.answer.done():
            # It is unknown whether it is kept: only the next start of the daemon can find out.
            self.die(TimeoutError("a transaction does not come to its end"))

    def _finish(self, outcome: _Outcome | BaseException) -> None:
        if isinstance(outcome, BaseException):
            self.die(outcome)
        else:
            self._learn(outcome)
        self._jobs.finish()

    def _learn(self, outcome: _Outcome) -> None:
        try:
            if outcome.news is not None:
                self._on_commit(outcome.news)
            self._count(outcome)
        except Exception as exc:  # noqa: BLE001 - whatever it is, no caller may wait without end
            self.die(exc)

    def _count(self, outcome: _Outcome) -> None:
        refused = sum(not job.is_probe for job in self._jobs.group)
        if outcome.failure is not None and refused:
            self._failures.refused(outcome.failure, writes=refused)
        elif outcome.has_stored:
            self._failures.stored()

    def die(self, cause: BaseException) -> None:
        """Store nothing any more, for good; every waiting call raises."""
        is_first = self._death is None
        self._death = self._death or cause
        # Withdrawn too, or the thread would go on trying, and store what was refused.
        self._jobs.fail_all(self._died)
        self._ended.set()
        # Last: where the disk is full the line itself may fail, and no caller may wait for it.
        if is_first:
            # An error of ours explains itself; a trace would hide it.
            trace = None if isinstance(cause, BusError | TimeoutError) else cause
            log.error("store writer died", error=str(cause), exc_info=trace)

    def _died(self) -> BusUnavailableError:
        if isinstance(self._death, BusLostError):
            return BusLostError(str(self._death))
        return BusUnavailableError(f"the writer has died: {self._death}")

    # From here on in the writer's thread.

    def _serve(self) -> None:
        """Take groups until there are no more, and report how each ended."""
        # Once the loop is closed the report has no receiver.
        with contextlib.suppress(RuntimeError):
            while (group := self._handed.get()) is not None:
                outcome: _Outcome | BaseException
                try:
                    outcome = self._transact(group)
                except BaseException as exc:  # noqa: BLE001 - raised on the loop
                    outcome = exc
                self._loop.call_soon_threadsafe(self._finish, outcome)
            self._drop_connection()
            self._loop.call_soon_threadsafe(self._has_dropped.set)

    def _transact(self, group: WriteGroup) -> _Outcome:
        """Give each job its result or error."""
        try:
            if self._db is None:
                self._db = self._connect()
            if not self._begin(self._db, group):
                return _Outcome()
            began, changes = self._clock.monotonic(), self._db.total_changes
            claimed = self._jobs.claim(group)
            self._run(self._db, claimed)
            self._db.execute("COMMIT")
            self._verify()
            news = self._db.news
            has_changed = self._db.total_changes > changes
        except sqlite3.Error as exc:
            if is_damaged(exc):
                raise unavailable(exc) from exc
            self._fail(group, exc)
            return _Outcome(failure=str(exc))
        self._durations.observe(self._clock.monotonic() - began)
        self._log_recovery()
        has_stored = has_changed and not all(job.is_probe for job in claimed)
        return _Outcome(news=news, has_stored=has_stored)

    def _begin(self, db: StoreConnection, group: WriteGroup) -> bool:
        """Open a transaction, trying for as long as a caller waits for it; False if none does."""
        while any(not job.is_withdrawn for job in group):
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as exc:
                # Each attempt waits for SQLite's own short busy time-out.
                if not is_busy(exc):
                    raise
            else:
                return True
        return False

    def _run(self, db: StoreConnection, jobs: WriteGroup) -> None:
        db.news = CommitNews()
        try:
            _run_together(db, jobs)
        except _JOB_ERRORS:
            # Rare, so a savepoint for each job is paid for only then.
            db.execute("ROLLBACK")
            db.execute("BEGIN IMMEDIATE")
            db.news = CommitNews()
            for job in jobs:
                _run_alone(db, job)

    def _fail(self, group: WriteGroup, cause: sqlite3.Error) -> None:
        for job in group:
            job.error = unavailable(cause)
            job.error.__cause__ = cause
        # After some failures a connection stays unusable; a new one does not.
        self._drop_connection()
        self._failed_transactions += 1
        if self._failed_transactions == 1:
            log.warning("store write failed", error=str(cause), writes=len(group))

    def _log_recovery(self) -> None:
        if self._failed_transactions:
            log.info("store writable again", failures=self._failed_transactions)
            self._failed_transactions = 0

    def _drop_connection(self) -> None:
        if self._db is None:
            return
        # Closing alone may keep the transaction, and with it the file's lock, for a while.
        with contextlib.suppress(sqlite3.Error):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        self._db.close()
        self._db = None


def _run_together(db: StoreConnection, jobs: WriteGroup) -> None:
    # Their callers all wait at the same time, so no order between different works was promised.
    by_work: defaultdict[Work[Any, Any], WriteGroup] = defaultdict(list)
    for job in jobs:
        by_work[job.work].append(job)
    for work, jobs_of_work in by_work.items():
        results = work(db, [job.given for job in jobs_of_work])
        for job, result in zip(jobs_of_work, results, strict=True):
            job.result = result


def _run_alone(db: StoreConnection, job: WriteJob[Any]) -> None:
    before = db.news.copy()
    db.execute("SAVEPOINT job")
    try:
        (job.result,) = job.work(db, [job.given])
    except _JOB_ERRORS as exc:
        db.execute("ROLLBACK TO job")
        db.news = before
        job.error = exc if isinstance(exc, BusError) else unavailable(exc)
        if job.error is not exc:
            job.error.__cause__ = exc
    db.execute("RELEASE job")
