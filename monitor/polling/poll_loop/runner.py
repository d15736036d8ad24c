"""Runs the declared polls: each again and again, or when something is due.

An attempt is timed, counted, shown and, when its outcome changes, logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram

from monitor.model.errors import (
    BudgetExhaustedError,
    BusError,
    BusUnavailableError,
    DoubtedListError,
    LeaseUncertainError,
    MonitorError,
    NoSuchObjectError,
    NotAvailableError,
    RequestRejectedError,
    ThrottledError,
    TryLaterError,
    UnauthorizedError,
    UnreadableAnswerError,
    WorkspaceUnreachableError,
)
from monitor.model.live_state import PollStatus
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.registries import made_once, process_registry
from monitor.model.waits import WakeSignal, backoff_seconds
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Interval, Poll, WhenDue, jittered
from monitor.polling.poll_loop.reachability import ReachabilityJudge
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_BUCKETS_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
# A poll may take this much longer than its interval before it counts as late.
_GRACE_SECONDS = 60.0
_NOTHING_DUE_SECONDS = 3_600.0
_STORE_CAP_SECONDS = 10.0  # between two attempts that the store does not answer


class PollMetrics:
    """One set for all workspaces of a registry; get it by `of`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.polls = Counter(
            "dataprep_monitor_polls",
            "Polls of a workspace, by what came of them.",
            ["workspace", "poll", "outcome"],
            registry=registry,
        )
        self.duration = made_once(_duration, process_registry(registry))

    @staticmethod
    def of(registry: CollectorRegistry) -> PollMetrics:
        """Return the registry's set, made at the first call."""
        return made_once(PollMetrics, registry)


def _duration(registry: CollectorRegistry) -> Histogram:
    return Histogram(
        "dataprep_monitor_poll_duration_seconds",
        "From the beginning of a poll to its end or failure.",
        ["poll"],
        buckets=_BUCKETS_SECONDS,
        registry=registry,
    )


# The first that fits names the outcome.
_OUTCOMES: tuple[tuple[type[MonitorError], PollOutcome], ...] = (
    (WorkspaceUnreachableError, PollOutcome.UNREACHABLE),
    (ThrottledError, PollOutcome.THROTTLED),
    (BudgetExhaustedError, PollOutcome.BUDGET),
    (LeaseUncertainError, PollOutcome.LEASE),
    (DoubtedListError, PollOutcome.DOUBTED),
    (TryLaterError, PollOutcome.INCOMPLETE),
    (UnauthorizedError, PollOutcome.UNAUTHORIZED),
    (NotAvailableError, PollOutcome.NOT_AVAILABLE),
    (NoSuchObjectError, PollOutcome.NO_SUCH_OBJECT),
    (RequestRejectedError, PollOutcome.REJECTED),
    (UnreadableAnswerError, PollOutcome.UNREADABLE),
    (BusError, PollOutcome.STORE),
)


def outcome_of(error: MonitorError) -> PollOutcome:
    """Return the label ``outcome`` of ``polls_total`` for a failure."""
    return next((name for kind, name in _OUTCOMES if isinstance(error, kind)), PollOutcome.FAILED)


class PollAttempts:
    """Runs the polls of one workspace, so that a failing one never stops another."""

    def __init__(self, context: PollContext, registry: CollectorRegistry) -> None:
        self._context = context
        self._metrics = PollMetrics.of(registry)
        self.reachability = ReachabilityJudge(context)
        self._failures: dict[str, int] = {}
        self._logged: dict[str, PollOutcome] = {}  # outcome that the log shows last

    def failures(self, poll: str) -> int:
        """Return how often the poll has failed in a row."""
        return self._failures.get(poll, 0)

    async def attempt(
        self,
        name: str,
        poll: Callable[[], Awaitable[object]],
        *,
        again_seconds: float | None,
        can_wait: bool = False,
    ) -> MonitorError | None:
        """Run one poll and return its failure, None for success.

        A poll that returns False has sent no request, so it shows nothing about the workspace; nor
        does one that can wait, and finds no room in our own budget.
        ``again_seconds`` is when it will run next, None where that is not known. A cancelled call
        records nothing.
        """
        began = self._context.clock.monotonic()
        failure: MonitorError | None = None
        has_requested = True
        try:
            has_requested = await self._bounded(poll) is not False
        except MonitorError as error:
            # Kept until the next success: its frames hold the answer that could not be read.
            failure = error.with_traceback(None)
            failure.__cause__ = failure.__context__ = None
        self._metrics.duration.labels(name).observe(self._context.clock.monotonic() - began)
        self._record(
            name,
            failure,
            has_requested=has_requested,
            is_waiting=can_wait and isinstance(failure, BudgetExhaustedError),
            again_seconds=again_seconds,
        )
        return failure

    async def _bounded(self, poll: Callable[[], Awaitable[object]]) -> object:
        """Return what the poll returns.

        Raises:
            TryLaterError: it was stopped, as it took too long; what it had handled is kept.
            MonitorError: as the poll.
        """
        seconds = self._context.settings.longest_poll_seconds
        try:
            # By the loop's own time, as the limits of its requests.
            async with asyncio.timeout(seconds) as limit:
                return await poll()
        except TimeoutError as exc:
            if not limit.expired():
                raise
            reason = f"the poll was stopped after {seconds:g} seconds; the next one goes on"
            raise TryLaterError(reason) from exc

    def _record(
        self,
        name: str,
        failure: MonitorError | None,
        *,
        has_requested: bool,
        is_waiting: bool,
        again_seconds: float | None,
    ) -> None:
        context, now = self._context, self._context.clock.now()
        outcome = PollOutcome.OK if failure is None else outcome_of(failure)
        before = context.live_state.polls.get((context.name, name))
        succeeded_at = before.last_success_at if before is not None else None
        is_lost = self._is_unavailable(failure)
        if failure is None:
            succeeded_at = now
            self._failures.pop(name, None)
            if has_requested:
                self.reachability.succeeded(name)
            else:
                self.reachability.recovered(name)
        elif is_lost:
            # It answers; what it no longer serves shows in the capabilities.
            self._failures.pop(name, None)
            self.reachability.dropped(name)
        else:
            self._failures[name] = self.failures(name) + 1
            if not is_waiting:
                self.reachability.failed(name, failure)
        counted = outcome if has_requested else PollOutcome.IDLE
        self._metrics.polls.labels(context.name, name, counted).inc()
        overdue_at = None if is_lost else self._overdue_at(before, failure, again_seconds)
        context.live_state.record_poll(
            PollStatus(
                workspace=context.name,
                poll=name,
                last_attempt_at=now,
                last_success_at=succeeded_at,
                last_outcome=outcome,
                overdue_at=overdue_at,
            )
        )
        if has_requested and not is_waiting:
            self._log(name, PollOutcome.OK if is_lost else outcome, failure)

    def _is_unavailable(self, failure: MonitorError | None) -> bool:
        return (
            isinstance(failure, NotAvailableError)
            and failure.operation_id in self._context.client.requester.unavailable
        )

    def _overdue_at(
        self, before: PollStatus | None, failure: MonitorError | None, again_seconds: float | None
    ) -> float | None:
        if again_seconds is None:
            return None
        # A failed attempt does not move the moment by which a success is due.
        if failure is not None and before is not None and before.overdue_at is not None:
            return before.overdue_at
        return self._context.clock.monotonic() + 2 * again_seconds + _GRACE_SECONDS

    def _log(self, name: str, outcome: PollOutcome, failure: MonitorError | None) -> None:
        if outcome == self._logged.get(name, PollOutcome.OK):
            return
        self._logged[name] = outcome
        fields = {"workspace": self._context.name, "poll": name}
        if failure is None:
            log.info("poll recovered", **fields)
        elif outcome != PollOutcome.OK:
            log.warning("poll failed", **fields, outcome=outcome, reason=str(failure))


class PollRunner:
    """Starts polls and repeats each in its own time. A poll that fails never stops another."""

    def __init__(
        self,
        context: PollContext,
        *,
        attempts: PollAttempts,
        after_attempt: Callable[[], None],
        random: Random,
    ) -> None:
        self._context = context
        self._attempts = attempts
        self._after_attempt = after_attempt
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
                failure = await self._attempts.attempt(
                    poll.name, run, again_seconds=again_seconds, can_wait=_can_wait(poll)
                )
                wait = self._wait_after(poll.name, timing.seconds(), failure)
                self._after_attempt()
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
        clock = self._context.clock
        while True:
            wait = timing.seconds_until_due()
            if wait is not None and wait <= 0:
                await self._context.until_answering()
                failure = await self._attempts.attempt(
                    poll.name, poll.run, again_seconds=None, can_wait=_can_wait(poll)
                )
                self._after_attempt()
                await clock.sleep(self._gap_after(poll.name, failure))
            else:
                await timing.wake.wait(_NOTHING_DUE_SECONDS if wait is None else wait)

    def _gap_after(self, name: str, failure: MonitorError | None) -> float:
        gap = self._context.settings.wake_gap_seconds
        if not isinstance(failure, BusUnavailableError):
            return gap  # what failed is due later
        return backoff_seconds(
            self._attempts.failures(name), base_seconds=gap, cap_seconds=_STORE_CAP_SECONDS
        )

    def _wait_after(self, name: str, seconds: float, failure: MonitorError | None) -> float:
        if failure is None:
            return seconds
        settings = self._context.settings
        growing = backoff_seconds(
            self._attempts.failures(name),
            base_seconds=settings.idle_seconds,
            cap_seconds=settings.reconcile_seconds,
        )
        may_pass = isinstance(failure, TryLaterError | BusUnavailableError)
        if may_pass or self._context.is_cut_off():
            # A slow poll need not wait its whole interval for what may be over soon.
            return min(seconds, growing)
        # It will hardly pass by itself, so it is retried less and less often.
        return max(seconds, growing)

    def jittered(self, seconds: float) -> float:
        """Return ``seconds``, spread so that many monitors do not poll in step."""
        return jittered(seconds, share=self._context.settings.jitter_share, random=self._random)


def _can_wait(poll: Poll) -> bool:
    return poll.priority is Priority.INVENTORY


def _forget(poll: Poll) -> None:
    if poll.forget is not None:
        poll.forget()
