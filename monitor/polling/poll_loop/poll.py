"""The definition of a poll: data that its own file declares and `poll_list` gathers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from monitor.catalogue.capabilities import Capability
from monitor.model.due_queue import DueQueue
from monitor.model.waits import WakeSignal
from monitor.workspace.priority import Priority


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
