"""Keeps the daemon's tasks running: restarts what fails, and says what is not ready.

The one place that catches `Exception`: everywhere else only our own errors are caught, so what
arrives here is a fault of ours or a failure that nobody could deal with.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

import msgspec
import structlog
from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter

from monitor.model.clock import Clock
from monitor.model.errors import BusError, MonitorError

log = structlog.get_logger()
_JITTER = random.SystemRandom()

T = TypeVar("T")


class TaskState(StrEnum):
    """What a supervised task is doing."""

    RUNNING = "running"
    FAILED = "failed"  # waiting for its restart, or, if vital, over
    DONE = "done"  # a finite task that has returned


class TaskStatus(Struct, frozen=True, kw_only=True):
    """How one task stands. Times are ours; ``reason`` is one line about the last failure."""

    state: TaskState
    since: datetime
    restarts: int = 0
    reason: str | None = None


class Waits(Struct, frozen=True, kw_only=True):
    """How long a failed task waits for its restart; each wait doubles the one before."""

    first_seconds: float = 1.0
    cap_seconds: float = 60.0
    # A task that ran at least so long counts as healthy again, and its waits start anew.
    healthy_seconds: float = 300.0


class TaskReturnedError(MonitorError):
    """A task that should run until it is cancelled has returned."""


class Supervisor:
    """Runs tasks under names. Each `supervise` call is meant to be a task of a `TaskGroup`."""

    def __init__(
        self,
        *,
        clock: Clock,
        registry: CollectorRegistry,
        waits: Waits | None = None,
        jitter: Callable[[], float] = _JITTER.random,
    ) -> None:
        """``jitter`` returns a number from 0 to 1; at 1 a wait has its full length."""
        self._clock = clock
        self._waits = waits or Waits()
        self._jitter = jitter
        self._status: dict[str, TaskStatus] = {}
        self._contained: dict[str, str] = {}  # part -> its last failure
        self._failures = Counter(
            "dataprep_monitor_task_failures",
            "Failures of the daemon's own tasks, each followed by a restart.",
            ["task"],
            registry=registry,
        )

    def status(self) -> dict[str, TaskStatus]:
        """Return how each task stands; one that was cancelled is no longer there."""
        return dict(self._status)

    async def supervise(
        self,
        name: str,
        run: Callable[[], Awaitable[None]],
        *,
        vital: bool = False,
        finite: bool = False,
    ) -> None:
        """Run and restart ``run`` until cancelled; return only if it is ``finite`` and done.

        A task that returns although it is not ``finite`` counts as failed. A ``vital`` task is
        not restarted: its failure is logged, counted and raised.
        """
        self._failures.labels(name)  # a known task is counted from 0
        attempt = 0
        try:
            while True:
                began = self._clock.monotonic()
                self._note(name, TaskState.RUNNING)
                if await self._runs_through(name, run, vital=vital, finite=finite):
                    return
                if self._clock.monotonic() - began >= self._waits.healthy_seconds:
                    attempt = 0
                attempt += 1
                await self._wait(name, attempt)
        except asyncio.CancelledError:
            # Whoever cancels a task does not want it any more; so it stands for nothing.
            self._status.pop(name, None)
            raise

    def contain(
        self, name: str, call: Callable[[], T], on_failure: Callable[[str], None]
    ) -> T | None:
        """Call something whose failure must not stop others; return None where it fails.

        The failure is logged with its trace, again only when it is another one.
        """
        try:
            return call()
        except Exception as exc:
            reason = f"{type(exc).__name__}: {exc}"
            if self._contained.get(name) != reason:
                self._contained[name] = reason
                log.exception("a part failed and was left out", part=name)
            on_failure(_one_line(exc))
            return None

    async def _runs_through(
        self, name: str, run: Callable[[], Awaitable[None]], *, vital: bool, finite: bool
    ) -> bool:
        """Run once; True when the task is done, False when it has failed."""
        try:
            await run()
            if not finite:
                raise TaskReturnedError("the task returned, and it should run for ever")  # noqa: TRY301 - one way to fail
        except Exception as exc:
            self._failures.labels(name).inc()
            self._note(name, TaskState.FAILED, reason=_one_line(exc))
            # The store's own sentence says all; a trace with each restart would hide it.
            is_foreign = not isinstance(exc, BusError)
            reason = {} if is_foreign else {"reason": str(exc)}
            log.exception("task failed", task=name, vital=vital, exc_info=is_foreign, **reason)
            if vital:
                raise
            return False
        self._note(name, TaskState.DONE)
        return True

    async def _wait(self, name: str, attempt: int) -> None:
        # Bounded exponent: a weekend of restarts would overflow a float.
        doubled = self._waits.first_seconds * 2.0 ** min(attempt - 1, 60)
        seconds = min(doubled, self._waits.cap_seconds) * (0.5 + 0.5 * self._jitter())
        log.info("task will be restarted", task=name, attempt=attempt, wait_seconds=seconds)
        await self._clock.sleep(seconds)
        status = self._status[name]
        self._status[name] = msgspec.structs.replace(status, restarts=status.restarts + 1)

    def _note(self, name: str, state: TaskState, *, reason: str | None = None) -> None:
        former = self._status.get(name)
        self._status[name] = TaskStatus(
            state=state,
            since=self._clock.now(),
            restarts=0 if former is None else former.restarts,
            reason=reason or (None if former is None else former.reason),
        )


def _one_line(exc: Exception) -> str:
    # It is shown on the readiness page, where a foreign error's text could show a secret.
    if isinstance(exc, MonitorError):
        return f"{type(exc).__name__}: {' '.join(str(exc).split())[:200]}"
    return f"{type(exc).__name__}, see the log"
