"""Checks whether the workspace reaches our listener: once, before the first task is made."""

from __future__ import annotations

import structlog

from monitor.callbacks.task_maintenance import TaskMaintenance
from monitor.model.clock import Clock
from monitor.model.errors import NotAvailableError, RequestRejectedError, UnreadableAnswerError
from monitor.model.waits import backoff_seconds
from monitor.workspace.payloads import WebhookTest

log = structlog.get_logger()

_FIRST_WAIT_SECONDS = 10.0
_LONGEST_WAIT_SECONDS = 900.0  # the test has a quota of its own, shared with people


class ReachabilityTest:
    """Remembers the result of the test; a failed test is repeated after growing waits."""

    def __init__(self, upkeep: TaskMaintenance, *, clock: Clock) -> None:
        self._maintenance = upkeep
        self._clock = clock
        self._is_proven = False
        self._reason: str | None = None
        self._failures = 0
        self._again_at = 0.0

    def try_again(self) -> None:
        """Test again at the next call, whatever the last result was."""
        self._again_at = 0.0

    async def problem(self) -> str | None:
        """Return why a task would call in vain; None where nothing speaks against it.

        Raises:
            WorkspaceError: the workspace as a whole does not answer.
        """
        if self._is_proven:
            return None
        if self._reason is not None and self._clock.monotonic() < self._again_at:
            return self._reason
        try:
            tested = await self._maintenance.test()
        except (NotAvailableError, RequestRejectedError, UnreadableAnswerError) as exc:
            log.warning("callback test unavailable; tasks are made untested", reason=str(exc))
            tested = WebhookTest()
        self._reason = problem_of(tested)
        self._is_proven = self._reason is None
        if not self._is_proven:
            self._failures += 1
            self._again_at = self._clock.monotonic() + backoff_seconds(
                self._failures,
                base_seconds=_FIRST_WAIT_SECONDS,
                cap_seconds=_LONGEST_WAIT_SECONDS,
            )
        return self._reason


def problem_of(tested: WebhookTest) -> str | None:
    """Return why a callback would not arrive; None where nothing speaks against it."""
    if tested.is_ok or (tested.status_code is None and tested.error is None):
        return None
    answer = tested.error or f"it was answered {tested.status_code}"
    return f"the workspace cannot reach public_url: {answer}"
