"""The request budget of one workspace: who may send, and when.

A bucket fills with our own rate and holds a quarter of a minute's requests for bursts; over a
long time no more than ``requests_per_minute`` are sent. Callers go in order of their class,
then first come. The last part of the bucket is kept for those who matter more: what can wait is
sent only while the bucket is well filled.

No class starves: each has a minimum share of the turns, see `TurnShares`, and keeps no reserve
when it takes one that it is owed.

The workspace's headers can only lower this. The public quotas belong to single
operations (running, exporting, testing webhooks), so a quota announced by such an operation binds
that operation alone; a quota announced by any other answer binds everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from monitor.model.clock import Clock
from monitor.model.errors import BudgetExhaustedError, ThrottledError
from monitor.model.live_state import BudgetStatus
from monitor.model.waits import happens_within
from monitor.workspace.answer_headers import LONG_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Quota
from monitor.workspace.api_metrics import ApiMetrics
from monitor.workspace.priority import Priority

# The least share of the turns that each waiting class has; together they have half of all.
SHARE = 0.5 / len(Priority)
_BURST_MINUTES = 0.25
# Callers wait in tasks of their own, so this many of one class mean that something runs away.
_LONGEST_QUEUE = 1000
_ROUNDING = 1e-9
# How long a class is shown as starved after one of its requests found no room in time.
_STARVED_SECONDS = 120.0
# The share of the bucket that a class leaves to those before it.
_RESERVED = {
    Priority.CHANGES: 0.0,
    Priority.ENDS: 0.05,
    Priority.LINKS: 0.1,
    Priority.FAILED_DETAILS: 0.15,
    Priority.DETAILS: 0.2,
    Priority.RECONCILIATION: 0.3,
    Priority.NAMES: 0.4,
    Priority.SCHEDULES: 0.45,
    Priority.INVENTORY: 0.5,
}


class TurnShares:
    """Fair queueing among classes of requests, so that none starves.

    Classes go in their order. With every turn that is taken, each class that waits is owed `SHARE`
    of one; a class that is owed a whole turn takes it before the others. The turn after it goes by
    the order again, so the first class never waits for more than one other. What a class is owed
    stays when it gives up, for when it returns.
    """

    def __init__(self) -> None:
        self._owed = dict.fromkeys(Priority, 0.0)  # turns
        self._is_order_next = False  # the last turn was one that its class was owed

    def owed(self, waiting: Collection[Priority]) -> Priority | None:
        """Return the waiting class that is owed the next turn; None where the order decides."""
        if self._is_order_next or not waiting:
            return None
        most = max(waiting, key=lambda priority: self._owed[priority])
        return most if self._owed[most] >= 1.0 else None

    def record(self, taken: Priority, waiting: Collection[Priority]) -> None:
        """Count a turn. ``waiting`` are the classes that wanted it, with the one that took it."""
        self._is_order_next = self.owed(waiting) is not None
        for priority in waiting:
            self._owed[priority] += SHARE
        self._owed[taken] = max(0.0, self._owed[taken] - 1.0)


class _Waiter:
    """One caller in the queue. ``nudge`` is set when it has come to the front.

    ``bound_by`` names the operation whose own quota binds it too, None where there is none.
    """

    __slots__ = ("bound_by", "nudge", "priority")

    def __init__(self, priority: Priority, bound_by: str | None) -> None:
        self.priority = priority
        self.bound_by = bound_by
        self.nudge = asyncio.Event()


class _Window:
    """A quota that the workspace announced, counted down by us until it resets."""

    __slots__ = ("left", "limit", "reset_at", "until")

    def __init__(self, quota: Quota, until: float) -> None:
        self.limit = quota.limit
        self.left = quota.remaining
        self.reset_at = quota.reset_at
        self.until = until  # our monotonic seconds


class RequestBudget:
    """Hands out turns. One for each workspace; used from one event loop."""

    def __init__(
        self, *, workspace: str, requests_per_minute: float, clock: Clock, metrics: ApiMetrics
    ) -> None:
        self._workspace = workspace
        self._requests_per_minute = requests_per_minute
        self._clock = clock
        self._metrics = metrics
        self._tokens = self._capacity(requests_per_minute)
        self._filled_at = clock.monotonic()
        self._queues: dict[Priority, list[_Waiter]] = {priority: [] for priority in Priority}
        self._shares = TurnShares()
        self._gave_up_at: dict[Priority, float] = {}  # our monotonic seconds
        # By operation; None stands for the workspace as a whole.
        self._paused_until: dict[str | None, float] = {}
        self._windows: dict[tuple[str | None, str], _Window] = {}
        self._shown: set[str] = set()  # scopes on the page
        metrics.throttle_seconds.labels(workspace)
        self._show()

    async def acquire(
        self,
        priority: Priority,
        *,
        wait_seconds: float,
        operation_id: str,
        has_own_quota: bool = False,
        is_probe: bool = False,
    ) -> None:
        """Return when one request may be sent; a probe at once, pause or not.

        A cancelled call leaves the queue and spends nothing.

        Raises:
            BudgetExhaustedError: no turn within ``wait_seconds``, or far too many are waiting.
            ThrottledError: the workspace asked for a pause that is far from over.
        """
        if is_probe:
            self._tokens -= 1.0
            return
        bound_by = operation_id if has_own_quota else None
        began = self._clock.monotonic()
        with self._queued(priority, operation_id, bound_by) as waiter:
            try:
                while (delay := self._delay_of(waiter)) > 0:
                    left = began + wait_seconds - self._clock.monotonic()
                    if left <= 0:
                        self._gave_up_at[priority] = self._clock.monotonic()
                        raise self.long_pause(operation_id) or BudgetExhaustedError(
                            f"no room in the request budget within {wait_seconds:g} s",
                            operation_id=operation_id,
                        )
                    await self._rest(waiter, min(delay, left))
            finally:
                waited = self._clock.monotonic() - began
                self._metrics.throttle_seconds.labels(self._workspace).inc(max(0.0, waited))
            self._spend(waiter)

    def seconds_until_turn(self, priority: Priority, *, ahead: int = 0) -> float:
        """Estimate how long a request of now would wait after ``ahead`` others of its class.

        Those of other classes that come later are not counted, nor what its own class is owed.
        """
        self._refresh()
        now, reserved = self._clock.monotonic(), _RESERVED[priority]
        ahead += sum(len(queue) for other, queue in self._queues.items() if other <= priority)
        until = self._delayed_until(None, reserved=reserved, turns=1 + ahead)
        missing = ahead + self._needed(reserved) - self._tokens
        return max(until - now, missing / self._per_second(), 0.0)

    def learn(
        self, quotas: Sequence[Quota], *, operation_id: str | None, workspace_now: float
    ) -> None:
        """Learn the quotas of an answer. ``operation_id`` None binds the whole workspace.

        ``workspace_now`` is the workspace's time in seconds since 1970.
        """
        for quota in quotas:
            lasts = min(max(0.0, quota.reset_at - workspace_now), LONGEST_PAUSE_SECONDS)
            key = (operation_id, quota.scope)
            known = self._windows.get(key)
            window = _Window(quota, self._clock.monotonic() + lasts)
            if known is not None and known.reset_at == quota.reset_at:
                # Answers overtake each other, and requests under way are counted by us already.
                window.left = min(window.left, known.left)
            self._windows[key] = window
        self._show()

    def pause(self, seconds: float, *, operation_id: str | None) -> None:
        """Send nothing for ``seconds``: of that operation, or with None of the workspace."""
        until = self._clock.monotonic() + min(seconds, LONGEST_PAUSE_SECONDS)
        self._paused_until[operation_id] = max(until, self._paused_until.get(operation_id, until))

    def long_pause(self, operation_id: str) -> ThrottledError | None:
        """Return the error of a pause of all requests that lasts longer than quotas do.

        They count by the minute. The message says until when, by our clock.
        """
        self._refresh()
        left = self._delayed_until(None) - self._clock.monotonic()
        if left <= LONG_PAUSE_SECONDS:
            return None
        until = self._clock.now() + timedelta(seconds=left)
        return ThrottledError(
            f"{operation_id}: the workspace allows no requests until {until:%H:%M:%SZ}"
            " (429, or its quota is used up)",
            retry_after_seconds=left,
            operation_id=operation_id,
        )

    def resume(self) -> None:
        """Forget what holds back all requests: one that was sent all the same got its answer."""
        self._paused_until.pop(None, None)
        self._windows = {key: window for key, window in self._windows.items() if key[0]}

    def status(self) -> tuple[BudgetStatus, ...]:
        """Return our own budget and, for each scope, the tightest quota that still counts."""
        self._refresh()
        own = BudgetStatus(
            scope="own",
            limit=int(self._requests_per_minute),
            remaining=max(0, int(self._tokens)),
            starved=tuple(priority.label for priority in sorted(self._gave_up_at)),
        )
        tightest: dict[str, _Window] = {}
        for (_, scope), window in self._windows.items():
            if scope not in tightest or window.left < tightest[scope].left:
                tightest[scope] = window
        announced = (
            BudgetStatus(scope=scope, limit=window.limit, remaining=max(0, window.left))
            for scope, window in sorted(tightest.items())
        )
        return (own, *announced)

    @contextmanager
    def _queued(
        self, priority: Priority, operation_id: str, bound_by: str | None
    ) -> Iterator[_Waiter]:
        queue = self._queues[priority]
        if len(queue) >= _LONGEST_QUEUE:
            self._gave_up_at[priority] = self._clock.monotonic()
            raise BudgetExhaustedError(
                f"{_LONGEST_QUEUE} requests for {priority.label} are waiting already",
                operation_id=operation_id,
            )
        waiter = _Waiter(priority, bound_by)
        queue.append(waiter)
        try:
            yield waiter
        finally:
            queue.remove(waiter)
            front = self._front()
            if front is not None:
                front.nudge.set()

    async def _rest(self, waiter: _Waiter, seconds: float) -> None:
        """Wait until the queue has changed, at most ``seconds``; nothing is left when cancelled."""
        waiter.nudge.clear()
        await happens_within(
            waiter.nudge.wait(),
            clock=self._clock,
            seconds=seconds,
            name=f"budget of {self._workspace}: turn",
        )

    def _delay_of(self, waiter: _Waiter) -> float:
        """Return 0 if it is this caller's turn, else the seconds until it may be."""
        self._refresh()
        now = self._clock.monotonic()
        own = self._delayed_until(waiter.bound_by) if waiter.bound_by else 0.0
        if own > now:
            return own - now
        if self._front() is not waiter:
            return LONGEST_PAUSE_SECONDS  # nudged when the queue moves
        reserved = (
            0.0
            if self._shares.owed(self._ready()) is waiter.priority
            else _RESERVED[waiter.priority]
        )
        shared = self._delayed_until(None, reserved=reserved)
        missing = self._needed(reserved) - self._tokens
        refill = missing / self._per_second() if missing > _ROUNDING else 0.0
        return max(shared - now, refill, 0.0)

    def _front(self) -> _Waiter | None:
        """Return who has the next turn: of the class that is owed it, else first in the order."""
        ready = self._ready()
        owed = self._shares.owed(ready)
        return ready[owed] if owed is not None else next(iter(ready.values()), None)

    def _ready(self) -> dict[Priority, _Waiter]:
        """Return the first of each class that no quota of its own operation holds up, in order."""
        now = self._clock.monotonic()
        ready: dict[Priority, _Waiter] = {}
        for priority, queue in self._queues.items():
            for waiter in queue:
                if waiter.bound_by is None or self._delayed_until(waiter.bound_by) <= now:
                    ready[priority] = waiter
                    break
        return ready

    def _delayed_until(
        self, operation_id: str | None, *, reserved: float = 0.0, turns: int = 1
    ) -> float:
        """Return when pauses and windows of one operation, or of all, let the next ones pass."""
        until = self._paused_until.get(operation_id, 0.0)
        for (bound, _), window in self._windows.items():
            if bound == operation_id and window.left < turns + int(reserved * window.limit):
                until = max(until, window.until)
        return until

    def _spend(self, waiter: _Waiter) -> None:
        self._shares.record(waiter.priority, self._ready())
        self._tokens -= 1.0
        for (bound, _), window in self._windows.items():
            if bound is None or bound == waiter.bound_by:
                window.left -= 1
        self._show()

    def _refresh(self) -> None:
        """Fill the bucket up to now and forget what is over."""
        now = self._clock.monotonic()
        # At the rate that held until now: the windows that end now still counted.
        gained = (now - self._filled_at) * self._per_second()
        self._filled_at = now
        self._windows = {key: window for key, window in self._windows.items() if window.until > now}
        self._paused_until = {key: at for key, at in self._paused_until.items() if at > now}
        self._gave_up_at = {
            priority: at
            for priority, at in self._gave_up_at.items()
            if now - at <= _STARVED_SECONDS
        }
        self._tokens = min(self._tokens + gained, self._capacity(self._per_second() * 60))

    def _per_second(self) -> float:
        limits = [window.limit for (bound, _), window in self._windows.items() if bound is None]
        return min([self._requests_per_minute, *limits]) / 60

    def _needed(self, reserved: float) -> float:
        capacity = self._capacity(self._per_second() * 60)
        return min(1.0 + reserved * capacity, capacity)

    @staticmethod
    def _capacity(requests_per_minute: float) -> float:
        return max(1.0, requests_per_minute * _BURST_MINUTES)

    def _show(self) -> None:
        status = self.status()
        for scope in self._shown - {budget.scope for budget in status}:
            # A quota that is over is not repeated: the next one is not known yet.
            self._metrics.rate_limit.remove(self._workspace, scope)
            self._metrics.rate_limit_remaining.remove(self._workspace, scope)
        self._shown = {budget.scope for budget in status}
        for budget in status:
            self._metrics.rate_limit.labels(self._workspace, budget.scope).set(budget.limit)
            self._metrics.rate_limit_remaining.labels(self._workspace, budget.scope).set(
                budget.remaining
            )
