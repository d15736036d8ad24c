"""Writes that wait for the store, from their arrival to their answer. One group is under way.

A write goes queued -> claimed -> answered. Until it is claimed its caller may withdraw it and
nothing of it is kept; once claimed it is awaited to its end. The queue belongs to the event loop. A
group belongs to its writer, which may be a thread, and only ``is_claimed`` and
``is_withdrawn`` are touched by both.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram

from monitor.bus.contract import WriteFailures
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError

T = TypeVar("T")

# Failures further apart are two stretches of trouble.
_STRETCH_SECONDS = 300.0
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class WriteJob(Generic[T]):
    """One write whose caller waits. ``work`` says what is to be done with all that is ``given``."""

    __slots__ = (
        *("answer", "error", "expires_at", "given", "is_claimed", "is_late", "may_linger"),
        *("is_probe", "is_withdrawn", "result", "timeout_seconds", "work"),
    )

    def __init__(self, work: Any, given: Any, *, is_probe: bool = False) -> None:
        self.work = work
        self.given = given
        self.is_probe = is_probe
        self.may_linger = False  # it causes no transaction, and goes with the next one
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.expires_at = math.inf  # by the loop's clock
        self.timeout_seconds = math.inf
        self.is_claimed = False
        self.is_withdrawn = False
        self.is_late = False  # its time was over when it had been claimed
        self.result: Any = None  # a T, once the work has run
        self.error: Exception | None = None

    def end(self) -> None:
        """Give its caller the result or the error, unless that has happened or it has gone."""
        if self.answer.done():
            return
        if self.error is not None:
            self.answer.set_exception(self.error)
        else:
            self.answer.set_result(self.result)


WriteGroup = list[WriteJob[Any]]


class WriteQueue:
    """Hands what has queued up to ``on_group``, again each time the group before has ended."""

    def __init__(
        self,
        *,
        bound: int,
        failures: WriteFailureRecord,
        on_group: Callable[[WriteGroup], None],
        on_late: Callable[[WriteJob[Any]], None],
    ) -> None:
        """``on_late`` is called with a claimed job whose caller's time is over."""
        self.group: WriteGroup = []  # under way
        self._bound = bound
        self._failures = failures
        self._on_group = on_group
        self._on_late = on_late
        self._loop = asyncio.get_running_loop()
        self._claiming = threading.Lock()
        self._queue: WriteGroup = []
        self._is_scheduled = False
        self._expiry: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def write(
        self, job: WriteJob[T], *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> T:
        """Queue the job and return its result.

        With ``linger_seconds`` it goes with the next one that has none, and by itself only after
        that time; the time-out begins only then.

        Raises:
            BusUnavailableError: nothing of it was kept.
        """
        if len(self._queue) >= self._bound:
            full = f"{self._bound} writes are waiting already"
            self._failures.refused(full)
            raise BusUnavailableError(full)
        job.may_linger = linger_seconds > 0
        job.timeout_seconds = timeout_seconds
        job.expires_at = self._loop.time() + linger_seconds + timeout_seconds
        self._queue.append(job)
        self._schedule()
        self._expire_from(job.expires_at)
        linger = None
        if job.may_linger:
            linger = self._loop.call_later(linger_seconds, self._end_linger, (job,))
        try:
            return await job.answer
        except asyncio.CancelledError:
            self._withdraw(job)
            raise
        finally:
            if linger is not None:
                linger.cancel()

    def claim(self, group: WriteGroup) -> WriteGroup:
        """Return the jobs that still have a caller; from now on none of them is withdrawn."""
        with self._claiming:
            claimed = [job for job in group if not job.is_withdrawn]
            for job in claimed:
                job.is_claimed = True
        return claimed

    def unclaim(self, group: WriteGroup) -> None:
        """Return jobs without any effect to their callers, who may withdraw them again."""
        for job in group:
            job.is_claimed = False
            if job.is_late:
                self._expire(job)

    def finish(self) -> None:
        """Answer the callers of the group; what they add at once goes into the next."""
        for job in self.group:
            if not job.answer.done():
                job.end()
        self.group = []
        # After the callers, who were scheduled before: one that has more waits for no turn more.
        self._loop.call_soon(self._start_group)

    def fail_all(self, error: Callable[[], Exception]) -> None:
        """Fail every caller, and withdraw what is not claimed."""
        self.fail_some(lambda _job: True, error)
        self._idle.set()

    def fail_some(
        self, is_due: Callable[[WriteJob[Any]], bool], error: Callable[[], Exception]
    ) -> None:
        """Fail the callers of these jobs, and withdraw those that are not claimed."""
        for job in [*self.group, *self._queue]:
            if not job.answer.done() and is_due(job):
                self._withdraw(job)
                job.error = error()
                job.end()
        self._queue = [job for job in self._queue if not job.answer.done()]

    def has_some(self, is_meant: Callable[[WriteJob[Any]], bool]) -> bool:
        """True while the caller of such a job waits."""
        return any(is_meant(job) and not job.answer.done() for job in (*self.group, *self._queue))

    async def drain(self) -> None:
        """Return when nothing waits any more; those that could wait longer go at once."""
        self._end_linger(self._queue)
        await self._idle.wait()

    def stop_timer(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _schedule(self) -> None:
        if self._is_scheduled or all(job.may_linger for job in self._queue):
            return
        self._is_scheduled = True
        self._idle.clear()
        # Not at once: other tasks of this turn of the loop may have something to add.
        self._loop.call_soon(self._start_group)

    def _start_group(self) -> None:
        if all(job.may_linger for job in self._queue):
            self._is_scheduled = False
            self._idle.set()
            return
        self.group, self._queue = self._queue, []
        self._on_group(self.group)

    def _end_linger(self, jobs: Iterable[WriteJob[Any]]) -> None:
        for job in jobs:
            job.may_linger = False
        self._schedule()

    def _withdraw(self, job: WriteJob[Any]) -> bool:
        with self._claiming:
            job.is_withdrawn = not job.is_claimed
            return job.is_withdrawn

    def _expire_from(self, at: float) -> None:
        # One timer for all: nearly every write has its answer long before.
        if self._expiry is None or at < self._expiry.when():
            self.stop_timer()
            self._expiry = self._loop.call_at(at, self._expire_due)

    def _expire_due(self) -> None:
        self._expiry = None
        waiting = [job for job in (*self.group, *self._queue) if not job.answer.done()]
        for job in waiting:
            if job.expires_at <= self._loop.time():
                job.expires_at = math.inf
                self._expire(job)
        next_at = min((job.expires_at for job in waiting), default=math.inf)
        if next_at < math.inf:
            self._expire_from(next_at)

    def _expire(self, job: WriteJob[Any]) -> None:
        if not self._withdraw(job):
            # Inside a transaction: whether it is kept is decided there, and soon.
            job.is_late = True
            self._on_late(job)
            return
        late = f"the store was not free within {job.timeout_seconds:g} s"
        if not job.is_probe:
            self._failures.refused(late)
        job.error = BusUnavailableError(late)
        job.end()


class WriteFailureRecord:
    """Remembers the newest stretch of failures. On the event loop only."""

    def __init__(self, clock: Clock, registry: CollectorRegistry) -> None:
        self._clock = clock
        self._refused = Counter(
            "dataprep_monitor_store_writes_refused",
            "Writes that the store did not keep: disk full, file locked or queue full.",
            registry=registry,
        )
        self._failures: WriteFailures | None = None
        self._last = 0.0  # on the monotonic clock

    @property
    def failures(self) -> WriteFailures | None:
        """The newest stretch of failures; None without any since the start."""
        if self._failures is None:
            return None
        return msgspec.structs.replace(self._failures, quiet_seconds=self._quiet_seconds())

    def refused(self, reason: str, *, writes: int = 1) -> None:
        """Count writes that were not stored."""
        self._refused.inc(writes)
        stretch = self._failures
        if stretch is None or (stretch.is_over and self._quiet_seconds() > _STRETCH_SECONDS):
            stretch = WriteFailures(since=self._clock.now(), quiet_seconds=0, count=0, reason="")
        self._last = self._clock.monotonic()
        self._failures = msgspec.structs.replace(
            stretch, count=stretch.count + writes, reason=reason, is_over=False
        )

    def stored(self) -> None:
        """Note that a write has become durable, other than a probe."""
        if self._failures is not None and not self._failures.is_over:
            self._failures = msgspec.structs.replace(self._failures, is_over=True)

    def _quiet_seconds(self) -> float:
        return self._clock.monotonic() - self._last


def commit_durations(registry: CollectorRegistry) -> Histogram:
    """Return a histogram of transactions' durations, in the same buckets for every store."""
    return Histogram(
        "dataprep_monitor_commit_duration_seconds",
        "Time from the start of a transaction to its being durable; one holds many changes.",
        buckets=_BUCKETS,
        registry=registry,
    )
