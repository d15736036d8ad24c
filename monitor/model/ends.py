"""The end of a run, and the order of ends: by when they happened, not by when they were observed.

The one place that decides which of two ends is the later one. Pipeline health, alert rules and
page order ends by `RunEnd.order`, so that they agree whatever the order in which ends are observed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from monitor.model.runs import Implausible, RunState, Status

E = TypeVar("E", bound="RunEnd")


class RunEnd(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The end of one run, by the workspace's clock.

    A reported or derived end has one instant. A bounded one lies between ``earliest``, the last
    read that showed the run unfinished, and ``latest``, the first that showed its end.
    ``may_improve``: a later read may still bring a better time. ``began_at`` is the start, or the
    creation where no start is known. ``flow_run`` is what a job group is part of.
    """

    run_id: str
    status: Status
    earliest: datetime
    latest: datetime
    may_improve: bool = False
    began_at: datetime | None = None
    duration_seconds: float | None = None
    flow_run: str | None = None

    @property
    def at(self) -> datetime:
        """Where the end sorts: what is not known of it hides no failure.

        A bounded failure counts from the latest instant, a bounded success from the earliest one
        until no better time can come.
        """
        is_early = self.status is Status.SUCCEEDED and self.may_improve
        return self.earliest if is_early else self.latest

    @property
    def order(self) -> tuple[datetime, bool, str]:
        """Return the sort key; of equal instants a failure is the later end."""
        return self.at, self.status is not Status.SUCCEEDED, self.run_id


def run_end(run: RunState) -> RunEnd | None:
    """Return the end of a run as far as it is known; None while the workspace shows none.

    An end in the future or before the start has no time: it is bounded by what was seen.
    """
    if not run.status.is_terminal:
        return None
    finished_at = _believable_finish(run)
    latest = finished_at or run.end_seen_at or run.updated_at or run.confirmed_at
    earliest = latest
    if finished_at is None:
        earliest = min(run.unfinished_at or run.started_at or run.created_at or latest, latest)
    is_reported = run.finished_at is not None and "finished_at" not in run.approximate
    # A time that is not believed settles nothing: such a success hides no failure for good.
    is_settled = finished_at is run.finished_at and (is_reported or run.detailed)
    return RunEnd(
        run_id=run.key.id,
        status=run.status,
        earliest=earliest,
        latest=latest,
        may_improve=not is_settled,
        began_at=run.started_at or run.created_at,
        duration_seconds=run.duration_seconds if finished_at is not None else None,
        flow_run=run.parents.flow_run,
    )


def _believable_finish(run: RunState) -> datetime | None:
    """Return when the run ended; None where that cannot be true.

    An end in the future must not be the last one until then, nor one before the start the oldest:
    both are bounded like an end without a time.
    """
    at, seen_at, begun_at = run.finished_at, run.end_seen_at, run.started_at or run.created_at
    if at is None or seen_at is None or not run.implausible:
        return at
    is_ahead = at > seen_at and Implausible.IN_THE_FUTURE in run.implausible
    is_early = (
        begun_at is not None
        and at < begun_at <= seen_at
        and Implausible.ENDS_BEFORE_START in run.implausible
    )
    return None if is_ahead or is_early else at


def without_run(ends: Iterable[E], run_id: str) -> tuple[E, ...]:
    """Return the ends of the other runs."""
    return tuple(end for end in ends if end.run_id != run_id)


def with_end(ends: Iterable[E], end: E) -> tuple[E, ...]:
    """Return ends in order, with this one instead of what was known of the same run."""
    others = without_run(ends, end.run_id)
    if not others or end.order > others[-1].order:
        return (*others, end)  # as nearly always
    return tuple(sorted((*others, end), key=lambda known: known.order))


def newest_success(ends: Iterable[E]) -> E | None:
    """Return the success that sorts last, None where there is none."""
    successes = (end for end in ends if end.status is Status.SUCCEEDED)
    return max(successes, key=lambda end: end.order, default=None)


def open_failures(ends: Iterable[E], *, bad: Status = Status.FAILED) -> tuple[E, ...]:
    """Return the failures after the newest success, oldest first. Other ends clear nothing.

    ``bad`` is the status that counts as a failure.
    """
    known = tuple(ends)
    success = newest_success(known)
    failures = (
        end for end in known if end.status is bad and (success is None or end.order > success.order)
    )
    return tuple(sorted(failures, key=lambda end: end.order))
