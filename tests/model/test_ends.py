"""Ends are ordered by when they happened, and what is not known of one hides no failure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations

import msgspec
import pytest

from monitor.model.ends import RunEnd, newest_success, open_failures, run_end, with_end
from monitor.model.runs import (
    EndBasis,
    Implausible,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def end(run_id: str, status: Status, first: float, last: float | None = None) -> RunEnd:
    return RunEnd(
        run_id=run_id,
        status=status,
        earliest=at(first),
        latest=at(first if last is None else last),
        may_improve=last is not None,
    )


FAILURE, SUCCESS = end("1", Status.FAILED, 10), end("2", Status.SUCCEEDED, 20)


def test_an_older_failure_seen_after_a_newer_success_is_not_open() -> None:
    """Whichever of the two is seen first, nothing is failing."""
    for ends in permutations((FAILURE, SUCCESS)):
        known: tuple[RunEnd, ...] = ()
        for seen in ends:
            known = with_end(known, seen)
        assert open_failures(known) == ()


def test_of_equal_instants_the_failure_is_later() -> None:
    """A failure in the second of a success stays open."""
    failure = end("1", Status.FAILED, 20)
    assert open_failures((failure, SUCCESS)) == (failure,)


def test_an_end_without_a_time_hides_no_failure() -> None:
    """A bounded success sorts at its earliest instant, a bounded failure at its latest."""
    success = end("2", Status.SUCCEEDED, 5, 30)
    assert open_failures((FAILURE, success)) == (FAILURE,)
    failure = end("1", Status.FAILED, 10, 25)
    assert open_failures((failure, SUCCESS)) == (failure,)


def test_a_bounded_success_counts_from_its_latest_instant_once_nothing_better_can_come() -> None:
    """Then it clears what failed while it may have run."""
    success = msgspec.structs.replace(end("2", Status.SUCCEEDED, 5, 30), may_improve=False)
    assert open_failures((FAILURE, success)) == ()


@pytest.mark.parametrize("status", [Status.CANCELED, Status.LOST])
def test_canceled_and_lost_runs_clear_nothing(status: Status) -> None:
    """A failure before them stays open."""
    assert open_failures((FAILURE, end("2", status, 20))) == (FAILURE,)


def test_a_better_time_sorts_the_run_again() -> None:
    """The better end of a run replaces the known one and adds none."""
    known = with_end((FAILURE,), end("2", Status.SUCCEEDED, 5, 30))
    assert open_failures(known) == (FAILURE,)
    known = with_end(known, SUCCESS)
    assert len(known) == 2
    assert newest_success(known) == SUCCESS
    assert open_failures(known) == ()


def test_the_end_of_a_run_is_reported_or_bounded() -> None:
    """A run without a finish lies between the last read before its end and the first after it."""
    run = RunState(
        key=RunKey("acme", RunKind.JOB_GROUP, "1"),
        status=Status.RUNNING,
        created_at=at(0),
        confirmed_at=at(99),
        confirmed_by=Source.POLL,
    )
    assert run_end(run) is None
    ended = msgspec.structs.replace(
        run, status=Status.FAILED, unfinished_at=at(40), end_seen_at=at(50)
    )
    bounded = run_end(ended)
    assert bounded is not None
    assert (bounded.earliest, bounded.latest) == (at(40), at(50))
    reported = run_end(msgspec.structs.replace(ended, finished_at=at(45)))
    assert reported is not None
    assert (reported.earliest, reported.latest) == (at(45), at(45))


def test_an_end_in_the_future_is_bounded_by_what_was_seen() -> None:
    """It is not the last end until its time comes; the time stays as it was reported."""
    run = RunState(
        key=RunKey("acme", RunKind.PLAN_RUN, "1"),
        status=Status.SUCCEEDED,
        started_at=at(0),
        finished_at=at(9_000),
        finished_by=EndBasis.REPORTED,
        unfinished_at=at(40),
        end_seen_at=at(50),
        implausible=(Implausible.IN_THE_FUTURE,),
        confirmed_at=at(50),
        confirmed_by=Source.POLL,
    )
    bounded = run_end(run)
    assert bounded is not None
    assert (bounded.earliest, bounded.latest) == (at(40), at(50))
    assert bounded.duration_seconds is None
    believed = run_end(msgspec.structs.replace(run, implausible=()))
    assert believed is not None
    assert believed.at == at(9_000)
    # Another of its times is wrong; its end is not.
    past = run_end(msgspec.structs.replace(run, finished_at=at(45)))
    assert past is not None
    assert (past.earliest, past.latest) == (at(45), at(45))


def test_a_failure_before_its_own_start_is_no_old_failure() -> None:
    """An end that cannot be true must not sort before a success that came before it."""
    run = RunState(
        key=RunKey("acme", RunKind.PLAN_RUN, "1"),
        status=Status.FAILED,
        started_at=at(30),
        finished_at=at(5),
        finished_by=EndBasis.REPORTED,
        unfinished_at=at(40),
        end_seen_at=at(50),
        implausible=(Implausible.ENDS_BEFORE_START,),
        confirmed_at=at(50),
        confirmed_by=Source.POLL,
    )
    bounded = run_end(run)
    assert bounded is not None
    assert (bounded.earliest, bounded.latest) == (at(40), at(50))
    assert open_failures((SUCCESS, bounded)) == (bounded,)


@pytest.mark.parametrize("is_detailed", [False, True])
def test_a_success_before_its_own_start_hides_no_later_failure(*, is_detailed: bool) -> None:
    """No better time will come, and yet it clears nothing that ended while it may have run."""
    run = RunState(
        key=RunKey("acme", RunKind.PLAN_RUN, "2"),
        status=Status.SUCCEEDED,
        started_at=at(3),
        finished_at=at(1),
        finished_by=EndBasis.REPORTED,
        unfinished_at=at(5),
        end_seen_at=at(50),
        implausible=(Implausible.ENDS_BEFORE_START,),
        detailed=is_detailed,
        confirmed_at=at(50),
        confirmed_by=Source.POLL,
    )
    bounded = run_end(run)
    assert bounded is not None
    assert open_failures((FAILURE, bounded)) == (FAILURE,)
