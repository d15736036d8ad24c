"""Any history of a week: whatever is polled when, each deadline is decided as it truly went."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from monitor.alerting.rules.deadline_settings import Counts
from monitor.model.runs import Status
from tests.alerting.deadline_histories import MONDAY, History, run
from tests.examples import examples

_DAYS = 5
_MINUTES = _DAYS * 24 * 60 - 1  # until which all is known; the next window is not open yet
Interval = tuple[datetime, datetime | None]


class Ran(Struct, frozen=True):
    """One run. Times are minutes from Monday on in Berlin; ``order`` is when it is seen.

    Where ends are seen late, it is so many minutes after it: ``delay``.
    """

    started: int
    lasts: int
    succeeds: bool
    order: int
    delay: int

    @property
    def began_at(self) -> datetime:
        return _at(self.started)

    @property
    def ended_at(self) -> datetime:
        return _at(self.started + self.lasts)


def _at(minutes: int) -> datetime:
    return MONDAY + timedelta(minutes=minutes)


RUNS = st.lists(
    st.builds(
        Ran,
        started=st.integers(-400, _MINUTES),
        lasts=st.integers(1, 400),
        succeeds=st.booleans(),
        order=st.integers(0, 100),
        delay=st.integers(0, 4_000),
    ),
    max_size=12,
)
POLLS = st.sets(st.integers(1, _MINUTES), max_size=12)


def truth(runs: list[Ran], counts: Counts) -> tuple[list[str], int, list[Interval]]:
    """Return the days that were met, how many were missed, and when an alert is to be open."""
    met: list[str] = []
    missed, intervals = 0, list[Interval]()
    for day in range(_DAYS):
        opens_at, due = _at(day * 1_440), _at(day * 1_440 + 420)
        ends = sorted(
            ran.ended_at
            for ran in runs
            if ran.succeeds
            and ran.ended_at <= _at(_MINUTES)
            and (ran.began_at if counts is Counts.STARTED else ran.ended_at) >= opens_at
        )
        if ends and ends[0] <= due:
            met.append(f"{opens_at:%a}")
            continue
        missed += 1
        intervals.append((due, ends[0] if ends else None))
    return met, missed, merged(intervals)


def merged(intervals: list[Interval]) -> list[Interval]:
    """Return intervals of one end as the one that began first."""
    by_end: dict[datetime | None, datetime] = {}
    for begin, end in sorted(intervals, key=lambda interval: interval[0]):
        by_end.setdefault(end, begin)
    return [(begin, end) for end, begin in by_end.items()]


@given(runs=RUNS, polls=POLLS, counts=st.sampled_from(Counts))
@settings(max_examples=examples(25))
def test_the_times_of_polls_decide_nothing(
    runs: list[Ran], polls: set[int], counts: Counts
) -> None:
    """Late polls, ends in any order, overlapping runs, outages of days: the alerts are the same."""
    history = followed(runs, polls, counts)
    met, missed, intervals = truth(runs, counts)
    assert (history.met_days, history.counts) == (met, (len(met), missed))
    assert merged(history.intervals) == intervals


@given(runs=RUNS, polls=POLLS, counts=st.sampled_from(Counts))
@settings(max_examples=examples(25))
def test_what_is_seen_days_later_is_decided_again(
    runs: list[Ran], polls: set[int], counts: Counts
) -> None:
    """When all is seen, the alert is open as it must be, and nothing was published wrongly."""
    history = followed(runs, polls, counts, are_late=True)
    met, _, intervals = truth(runs, counts)
    still = [begin for begin, end in intervals if end is None]
    assert [begin for begin, end in history.intervals if end is None] == still
    assert len(history.met_days) == len(set(history.met_days)) == history.counts[0]
    assert set(history.met_days) <= set(met)


def followed(
    runs: list[Ran], polls: set[int], counts: Counts, *, are_late: bool = False
) -> History:
    """Return the history as polls show it."""
    history = History(begin=MONDAY, counts=counts)
    seen: set[int] = set()
    for minute in sorted({*polls, _MINUTES}):
        news = [
            (ran.order, number)
            for number, ran in enumerate(runs)
            if number not in seen and _shown_at(ran, are_late=are_late) <= _at(minute)
        ]
        for _, number in sorted(news):
            ran = runs[number]
            status = Status.SUCCEEDED if ran.succeeds else Status.FAILED
            history.handle(run(number, ran.began_at, ran.ended_at, status=status))
            seen.add(number)
        history.evaluate(_at(minute))
    return history


def _shown_at(ran: Ran, *, are_late: bool) -> datetime:
    if ran.ended_at > _at(_MINUTES) or not are_late:
        return ran.ended_at
    return min(ran.ended_at + timedelta(minutes=ran.delay), _at(_MINUTES))
