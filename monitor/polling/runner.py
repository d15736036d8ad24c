"""Runs the declared polls, each in a task of its own, until their task group is cancelled.

While the workspace is cut off as a whole all of them wait, and `Recovery` tries it in their place.

The runner's tasks share no state but what the attempts and the capability discovery keep; both are
used from one event loop and never across an ``await`` of a poll, save that discovery lets one task
at a time probe. A poll's own state belongs to its task. What polls share is named in `poller`.
"""

from __future__ import annotations

import asyncio
from random import Random

import structlog

from monitor.model.errors import MonitorError, TryLaterError
from monitor.model.waits import WakeSignal, backoff_seconds
from monitor.polling.discovery.capability_discovery import CapabilityDiscovery
from monitor.polling.poll_loop.attempts import PollAttempts
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Interval, Poll, WhenDue, jittered

log = structlog.get_logger()

_NOTHING_DUE_SECONDS = 3_600.0


class PollRunner:
    """Starts polls and repeats each in its own time. A poll that fails never stops another."""

    def __init__(
        self,
        context: PollContext,
        *,
        attempts: PollAttempts,
        capability_discovery: CapabilityDiscovery,
        random: Random,
    ) -> None:
        self._context = context
        self._attempts = attempts
        self._capability_discovery = capability_discovery
        self._random = random

    def start(self, group: asyncio.TaskGroup, poll: Poll) -> None:
        """Start the poll's task, named after workspace and poll, in the group."""
        if not poll.is_on:
            # It may have been on before the settings changed.
            _forget(poll)
            return
        if isinstance(poll.timing, Interval):
            loop = self._repeat(poll, poll.timing)
        else:
            loop = self._run_when_due(poll, poll.timing)
        group.create_task(loop, name=f"{self._context.name}: {poll.name}")

    async def _repeat(self, poll: Poll, timing: Interval) -> None:
        settings, clock = self._context.settings, self._context.clock
        wake = timing.wake or WakeSignal(clock)
        await clock.sleep(self.jittered(timing.first_after_seconds))
        is_due, due_at = True, 0.0  # monotonic: when `run` itself is to run
        while True:
            await self._context.until_answering()
            failure: MonitorError | None = None
            wait = settings.reconcile_seconds
            if poll.needs is None or self._context.can(poll.needs):
                again_seconds = timing.seconds() if timing.is_expected else None
                is_due = is_due or poll.run_woken is None
                run = poll.run_woken if poll.run_woken is not None and not is_due else poll.run
                failure = await self._attempts.attempt(poll.name, run, again_seconds=again_seconds)
                wait = self._wait_after(poll.name, timing.seconds(), failure)
                await self._capability_discovery.switch_off_refused()
            else:
                _forget(poll)
            next_at = clock.monotonic() + self.jittered(wait)
            # Waking it must not put off what only `run` itself shows.
            due_at = next_at if is_due else min(due_at, next_at)
            # However often it is woken, it runs at most once in this time.
            await clock.sleep(min(settings.wake_gap_seconds, due_at - clock.monotonic()))
            is_woken = await wake.wait(due_at - clock.monotonic())
            is_due = failure is not None or not is_woken or clock.monotonic() >= due_at

    async def _run_when_due(self, poll: Poll, timing: WhenDue) -> None:
        settings, clock = self._context.settings, self._context.clock
        while True:
            wait = timing.seconds_until_due()
            if wait is not None and wait <= 0:
                await self._context.until_answering()
                await self._attempts.attempt(poll.name, poll.run, again_seconds=None)
                await self._capability_discovery.switch_off_refused()
                await clock.sleep(settings.wake_gap_seconds)
            else:
                await timing.wake.wait(_NOTHING_DUE_SECONDS if wait is None else wait)

    def _wait_after(self, name: str, seconds: float, failure: MonitorError | None) -> float:
        if failure is None:
            return seconds
        settings = self._context.settings
        growing = backoff_seconds(
            self._attempts.failures(name),
            base_seconds=settings.idle_seconds,
            cap_seconds=settings.reconcile_seconds,
        )
        if isinstance(failure, TryLaterError) or self._context.is_cut_off():
            # A slow poll need not wait its whole interval for what may be over soon.
            return min(seconds, growing)
        # It will hardly pass by itself, so it is retried less and less often.
        return max(seconds, growing)

    def jittered(self, seconds: float) -> float:
        """Return ``seconds``, spread so that many monitors do not poll in step."""
        return jittered(seconds, share=self._context.settings.jitter_share, random=self._random)


def _forget(poll: Poll) -> None:
    if poll.forget is not None:
        poll.forget()
