"""A poll as data that its own file declares and `poll_list` gathers, and when it runs.

Change polls come first in the order of spending. So their intervals are stretched: without a wait
of their own, a small budget would go to them alone, and no run's end and no job records would ever
be read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from monitor.catalogue.capabilities import Capability
from monitor.model.due_queue import DueQueue
from monitor.model.runs import RunKind
from monitor.model.waits import WakeSignal
from monitor.polling.poll_loop.context import PollContext
from monitor.workspace.priority import Priority

_CHANGE_SHARE = 0.75  # of the budget; the rest is for all that comes later in the order
_LINK_SHARE = 0.15  # of the budget, where many plans run at once
_CHANGE_LISTS = 2  # job groups and plan runs
# How long after a callback the interval stays short, whatever is known to run.
_SHORT_AFTER_WAKE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Run again and again."""

    seconds: Callable[[], float]  # called again after each attempt
    first_after_seconds: float = 0.0
    wake: WakeSignal | None = None  # ends the wait early
    is_expected: bool = True  # False: it never counts as late


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenDue:
    """Run whenever there is something to do, and only then."""

    seconds_until_due: Callable[[], float | None]  # None: nothing to do
    wake: WakeSignal  # rung when that may have changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """One poll of one workspace.

    ``run`` returns False where it had nothing to request, and raises a `MonitorError`
    where it failed; what it could do before is done. It runs in a task of its own, never twice at
    the same time.
    """

    name: str  # label of its metrics, and its name in the log and on the page
    priority: Priority  # the class of the request budget that its own reads are spent from
    timing: Interval | WhenDue
    run: Callable[[], Awaitable[object]]
    # Run instead of `run` when woken before its time, if `run` has succeeded last: a lesser poll.
    run_woken: Callable[[], Awaitable[object]] | None = None
    needs: Capability | None = None  # not run while the workspace does not offer this
    is_on: bool = True  # False: switched off by the settings
    # Drops what the poll has shown, when it is switched off or no longer served.
    forget: Callable[[], None] | None = None


def every(seconds: float, *, first_after_seconds: float = 0.0) -> Interval:
    """Return a fixed interval."""
    return Interval(seconds=lambda: seconds, first_after_seconds=first_after_seconds)


def when_due(queue: DueQueue[Any, Any]) -> WhenDue:
    """Run whenever something in the queue is due."""
    return WhenDue(seconds_until_due=queue.seconds_until_due, wake=queue.wake)


class ChangeInterval:
    """The intervals of the change polls: short while something runs and after they were woken.

    Plan runs are polled as if nothing ran until one is known to run; a poll that sees a part of an
    unknown one wakes that poll.
    """

    def __init__(self, context: PollContext, *, plan_runs: WakeSignal) -> None:
        self._context = context
        self.job_groups = WakeSignal(context.clock)
        self.plan_runs = plan_runs

    def wake(self) -> None:
        """Run the change polls soon."""
        self.job_groups.set()
        self.plan_runs.set()

    def seconds(self) -> float:
        return self._seconds(self.job_groups, frozenset(RunKind))

    def seconds_of_plan_runs(self) -> float:
        return self._seconds(self.plan_runs, frozenset({RunKind.PLAN_RUN}))

    def _seconds(self, wake: WakeSignal, kinds: frozenset[RunKind]) -> float:
        settings = self._context.settings
        woken = wake.seconds_since()
        is_woken = woken is not None and woken < _SHORT_AFTER_WAKE_SECONDS
        is_active = is_woken or self._context.has_active_runs(kinds)
        seconds = settings.active_seconds if is_active else settings.idle_seconds
        per_minute = self._context.client.settings.requests_per_minute
        return max(seconds, wait_between_lists(per_minute, lists=_CHANGE_LISTS))


def wait_between_lists(requests_per_minute: float, *, lists: int) -> float:
    """Return the least seconds between two polls of so many lists side by side.

    A poll that finds nothing new costs one request.
    """
    return lists * 60.0 / (requests_per_minute * _CHANGE_SHARE)


def wait_after_reads(requests_per_minute: float, *, reads: int) -> float:
    """Return the least seconds after a poll of so many reads, which take the whole budget."""
    return reads * 60.0 / requests_per_minute * (1 - _CHANGE_SHARE) / _CHANGE_SHARE


def wait_after_links(requests_per_minute: float, *, reads: int) -> float:
    """Return the least seconds after so many reads of plans, for which job records wait."""
    return reads * 60.0 / (requests_per_minute * _LINK_SHARE)


def jittered(seconds: float, *, share: float, random: Random) -> float:
    """Return ``seconds``, more or less by that share at most."""
    return seconds * (1 + share * (2 * random.random() - 1))
