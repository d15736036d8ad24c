"""The retry policy: which failed requests are sent again, and after which wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from random import Random
from typing import Generic, TypeVar

import structlog
from msgspec import Struct

from monitor.model.clock import Clock
from monitor.model.errors import WorkspaceError
from monitor.model.waits import backoff_seconds

log = structlog.get_logger()

T = TypeVar("T")


class RetryReason(StrEnum):
    """Why a request was sent again; the label ``reason`` of ``api_retries_total``."""

    NETWORK = "network"
    THROTTLED = "throttled"
    SERVER_ERROR = "server_error"


class Failure(Struct, frozen=True, kw_only=True):
    """One try that failed. ``reason`` None means that no further try may follow.

    ``wait_seconds`` is the wait that the workspace states, None without one.
    """

    error: WorkspaceError
    reason: RetryReason | None = None
    wait_seconds: float | None = None


class Success(Struct, Generic[T], frozen=True):
    """What a try that worked brought back."""

    value: T


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How often and how long. ``total_seconds`` bounds the begin of the last try."""

    retries: int
    total_seconds: float
    base_seconds: float = 0.5
    cap_seconds: float = 30.0


def jittered(seconds: float, random: Random) -> float:
    """Return between half of ``seconds`` and all of it.

    Keeps the workspaces of one outage, and the daemons of one company, from retrying in step.
    """
    return seconds / 2 + random.uniform(0, seconds / 2)


class Retrying:
    """Repeats a try by the policy, sleeping by the clock that it was given."""

    def __init__(
        self,
        policy: RetryPolicy,
        *,
        clock: Clock,
        random: Random,
        count: Callable[[RetryReason], None],
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._random = random
        self._count = count

    async def run(self, attempt: Callable[[], Awaitable[Success[T] | Failure]], *, what: str) -> T:
        """Return what the first good try brought; raise the error of the last bad one."""
        began = self._clock.monotonic()
        tries = 0
        while True:
            result = await attempt()
            if isinstance(result, Success):
                return result.value
            tries += 1
            wait_seconds = self._wait_seconds(result, tries, began)
            if wait_seconds is None or result.reason is None:
                raise result.error
            self._count(result.reason)
            log.debug(
                "request is tried again",
                operation=what,
                reason=result.reason.value,
                attempt=tries,
                wait_seconds=round(wait_seconds, 3),
            )
            await self._clock.sleep(wait_seconds)

    def _wait_seconds(self, failure: Failure, tries: int, began: float) -> float | None:
        if failure.reason is None or tries > self._policy.retries:
            return None
        policy = self._policy
        wait_seconds = jittered(
            backoff_seconds(
                tries, base_seconds=policy.base_seconds, cap_seconds=policy.cap_seconds
            ),
            self._random,
        )
        if failure.wait_seconds is not None:
            wait_seconds = max(wait_seconds, failure.wait_seconds)
        spent = self._clock.monotonic() - began
        return wait_seconds if spent + wait_seconds <= self._policy.total_seconds else None
