"""Restarts the daemon's tasks when they fail, and reports their status.

The one place that catches `Exception`: everywhere else only our own errors are caught, so what
arrives here is a defect of ours or a failure that no other part can handle.

A store that does not answer is no failure of the tasks that need it, and none of them waits for it
by itself: the error rises to here, and the task begins again once its wait is over, from what the
store holds. Each try is one line of the log. The check of the store makes the daemon not ready, and
so does a task that has waited in vain for several times: it may be the only one that is refused.
Deliveries, the link to a broker and polls wait by themselves: their window, their session and what
the polls beside them are waiting for would be lost.
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

from monitor.model.bounded_memory import BoundedMemory
from monitor.model.clock import Clock
from monitor.model.errors import BusError, BusLostError, BusUnavailableError, MonitorError
from monitor.model.waits import backoff_seconds

log = structlog.get_logger()
_JITTER = random.SystemRandom()

_LOGGED_AGAIN_SECONDS = 600.0  # between two log lines of one failure of a part
_FAILURES_REMEMBERED = 1_000
_STORE_TRIES = 5  # in a row, about half a minute; a task that needs more is shown as failed

T = TypeVar("T")


class TaskState(StrEnum):
    """What a supervised task is doing."""

    RUNNING = "running"
    FAILED = "failed"  # waiting for its restart, or, if vital, over
    DONE = "done"  # a finite task that has returned


class TaskStatus(Struct, frozen=True, kw_only=True):
    """The state of one task. Times are ours; ``reason`` is one line about the last failure."""

    state: TaskState
    since: datetime
    restarts: int = 0
    reason: str | None = None


class Waits(Struct, frozen=True, kw_only=True):
    """How long a failed task waits for its restart; each wait doubles the one before."""

    first_seconds: float = 1.0
    cap_seconds: float = 60.0
    store_cap_seconds: float = 10.0  # where it failed because the store did not answer
    # A task that ran at least so long counts as healthy again, and its waits start over.
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
        # Part and failure -> when it was logged, on the monotonic clock.
        self._logged_at: BoundedMemory[tuple[str, str], float] = BoundedMemory(_FAILURES_REMEMBERED)
        self._failures = Counter(
            "dataprep_monitor_task_failures",
            "Failures of the daemon's own tasks, each followed by a restart.",
            ["task"],
            registry=registry,
        )

    def status(self) -> dict[str, TaskStatus]:
        """Return the status of each task; a cancelled one is not listed."""
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

        A cancelled call cancels ``run`` and drops its status.

        A task that returns although it is not ``finite`` counts as failed. A ``vital`` task is
        not restarted: its failure is logged, counted and raised. One that ends because its store
        was lost has not failed, and is done; one whose store does not answer is restarted, is not
        counted, and is shown as failed only after several tries in a row.
        """
        self._failures.labels(name)  # a known task is counted from 0
        attempts = {True: 0, False: 0}  # of the store, and of the task itself
        try:
            while True:
                began = self._clock.monotonic()
                self._set_status(name, TaskState.RUNNING)
                failure = await self._run_once(name, run, vital=vital, finite=finite)
                if failure is None:
                    return
                ran_seconds = self._clock.monotonic() - began
                is_store = isinstance(failure, BusUnavailableError)
                if ran_seconds >= self._waits.healthy_seconds:
                    attempts = dict.fromkeys(attempts, 0)
                elif is_store and ran_seconds >= self._waits.cap_seconds:
                    attempts[True] = 0  # another outage: no try in vain lasts so long
                attempts[is_store] += 1
                if is_store and attempts[True] > _STORE_TRIES:
                    self._set_status(name, TaskState.FAILED, reason=_one_line(failure))
                await self._wait_for_restart(name, attempts[is_store], failure)
        except asyncio.CancelledError:
            # A cancelled task is not wanted any more, so it must not count as not ready.
            self._status.pop(name, None)
            raise

    def contain(
        self, name: str, call: Callable[[], T], on_failure: Callable[[str], None]
    ) -> T | None:
        """Call a part whose failure must not stop others; return None where it fails.

        The failure is logged with its trace; the same one again at most every ten minutes.
        """
        try:
            return call()
        except Exception as exc:
            if self._is_to_log(name, f"{type(exc).__name__}: {exc}"):
                log.exception("part failed", part=name)
            on_failure(_one_line(exc))
            return None

    def _is_to_log(self, name: str, failure: str) -> bool:
        now = self._clock.monotonic()
        logged_at = self._logged_at.get((name, failure))
        if logged_at is not None and now - logged_at < _LOGGED_AGAIN_SECONDS:
            return False
        self._logged_at.put((name, failure), now)
        return True

    async def _run_once(
        self, name: str, run: Callable[[], Awaitable[None]], *, vital: bool, finite: bool
    ) -> Exception | None:
        """Run once; return why it is to be restarted, None when the task is done."""
        try:
            # A task of its own: before Python 3.13 a group that fails leaves its task marked as
            # being cancelled, and this one must know whether it is.
            await asyncio.create_task(_awaited(run), name=name)
            if not finite:
                raise TaskReturnedError("the task returned, and it should not end")  # noqa: TRY301 - one way to fail
        except Exception as exc:
            cause = _error_of_store(exc)
            if not vital and isinstance(cause, BusLostError):
                # Not its failure: what watches the store says it once, and ends all of its tasks.
                self._set_status(name, TaskState.DONE)
                return None
            if vital or not isinstance(cause, BusUnavailableError):
                self._failures.labels(name).inc()
                self._set_status(name, TaskState.FAILED, reason=_one_line(cause or exc))
                # An error of the store explains itself; a trace with each restart would hide it.
                reason = {} if cause is None else {"reason": str(cause)}
                log.exception(
                    "task failed", task=name, vital=vital, exc_info=cause is None, **reason
                )
            if vital:
                raise
            if (task := asyncio.current_task()) is not None and task.cancelling():
                # A group in which a task fails just as it is cancelled raises the failure alone.
                raise asyncio.CancelledError from exc
            return cause or exc
        self._set_status(name, TaskState.DONE)
        return None

    async def _wait_for_restart(self, name: str, attempt: int, failure: Exception) -> None:
        waits = self._waits
        is_store = isinstance(failure, BusUnavailableError)
        cap_seconds = waits.store_cap_seconds if is_store else waits.cap_seconds
        seconds = backoff_seconds(
            attempt, base_seconds=waits.first_seconds, cap_seconds=cap_seconds
        ) * (0.5 + 0.5 * self._jitter())
        if is_store:
            log.warning(
                "task waits for the store", task=name, reason=str(failure), wait_seconds=seconds
            )
            await self._clock.sleep(seconds)
            return
        log.info("task restart scheduled", task=name, attempt=attempt, wait_seconds=seconds)
        await self._clock.sleep(seconds)
        status = self._status[name]
        self._status[name] = msgspec.structs.replace(status, restarts=status.restarts + 1)

    def _set_status(self, name: str, state: TaskState, *, reason: str | None = None) -> None:
        before = self._status.get(name)
        self._status[name] = TaskStatus(
            state=state,
            since=self._clock.now(),
            restarts=0 if before is None else before.restarts,
            reason=reason or (None if before is None else before.reason),
        )


async def _awaited(run: Callable[[], Awaitable[None]]) -> None:
    await run()


def _error_of_store(exc: BaseException) -> BusError | None:
    """Return the store's error, also where it ended a group; None where anything else failed.

    One that stays goes before one that passes, and that before the loss of the store.
    """
    if not isinstance(exc, BaseExceptionGroup):
        return exc if isinstance(exc, BusError) else None
    causes = [_error_of_store(error) for error in exc.exceptions]
    if None in causes:
        return None
    passing = (BusUnavailableError, BusLostError)
    return min(causes, key=lambda cause: sum(isinstance(cause, error) for error in passing))


def _one_line(exc: Exception) -> str:
    # The readiness page shows it, and a foreign error's text could contain a secret.
    if isinstance(exc, MonitorError):
        return f"{type(exc).__name__}: {' '.join(str(exc).split())[:200]}"
    return f"{type(exc).__name__}, see the log"
