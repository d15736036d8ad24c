"""Tries a workspace that is cut off as a whole: one small request, while all polls wait.

The kind of outage makes no difference: no answer, server errors, pages of a proxy, a refused token.
Only where the workspace asked for a long pause is it tried seldom.
"""

from __future__ import annotations

import itertools
from contextlib import suppress

from monitor.catalogue.operations import operation
from monitor.model.errors import (
    MonitorError,
    NoSuchObjectError,
    NotAvailableError,
    RequestRejectedError,
    ThrottledError,
)
from monitor.model.waits import backoff_seconds
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.reads import read_a_little
from monitor.polling.poll_loop.runner import PollAttempts
from monitor.tracking.live_state import RECOVERY

_FIRST_SECONDS = 1.0
# In a pause that the workspace has asked for.
_FIRST_IN_PAUSE_SECONDS = 60.0
_LONGEST_IN_PAUSE_SECONDS = 960.0
# In turns, so that one that is broken by itself does not hide a recovery.
_READS = ("listJobLibrary", "listFlows", "getCurrentPerson", "listSchedules")
_OF_EVERY_EDITION = "getOpenApiSpec"


class Recovery:
    """Finds out when the workspace answers again; the polls are let go with its first success."""

    def __init__(self, context: PollContext, attempts: PollAttempts) -> None:
        self._context = context
        self._attempts = attempts
        self._judge = attempts.reachability
        self._turns = itertools.count()

    async def run(self) -> None:
        """Try the workspace whenever it is cut off, until cancelled."""
        while True:
            await self._judge.cut_off.wait(self._context.settings.reconcile_seconds)
            tries = 0
            while self._judge.outage is not None:
                tries += 1
                await self._wait(self._judge.outage, tries)
                await self._attempts.attempt(RECOVERY, self._try, again_seconds=None)

    async def _wait(self, outage: MonitorError, tries: int) -> None:
        """Wait for the next try, or until another request was answered."""
        clock, longest = self._context.clock, self._context.settings.recovery_seconds
        seconds = backoff_seconds(tries, base_seconds=_FIRST_SECONDS, cap_seconds=longest)
        if isinstance(outage, ThrottledError):
            seconds = backoff_seconds(
                tries,
                base_seconds=_FIRST_IN_PAUSE_SECONDS,
                cap_seconds=min(_LONGEST_IN_PAUSE_SECONDS, outage.retry_after_seconds),
            )
        due_at = clock.monotonic() + seconds
        while (left := due_at - clock.monotonic()) > 0 and self._judge.outage is not None:
            await clock.sleep(min(left, longest))
            self._judge.confirm()

    async def _try(self) -> bool:
        """Send a small request; False where another one was answered meanwhile."""
        if self._judge.outage is None:
            return False
        client = self._context.client
        requester = client.requester
        served = [
            read
            for read in _READS
            if read not in requester.unavailable
            and (requester.edition is None or operation(read).is_part_of(requester.edition))
        ] or [_OF_EVERY_EDITION]
        operation_id = served[next(self._turns) % len(served)]
        # A refusal of the API's own shows that it answers.
        with suppress(NotAvailableError, NoSuchObjectError, RequestRejectedError):
            await read_a_little(client, operation_id, is_probe=True)
        if (pause := requester.budget.long_pause(operation_id)) is not None:
            raise pause
        return True
