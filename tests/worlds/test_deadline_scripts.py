"""The worlds of the gate have deadlines of every kind, and pipelines that do not meet them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from tests.worlds.deadline_scripts import LEAD_MINUTES
from tests.worlds.deadline_truth import AwaitedDeadline, awaited_deadlines
from tests.worlds.generator import world
from tests.worlds.risk_judge import WatchedDeadline
from tests.worlds.script import NEVER, DeadlineDays, World

_AT_NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)  # where a world may begin at any time
_GATE = range(100)
_LONGEST_SECONDS = 700.0
_KINDS = (
    "met",
    "missed, and met late",
    "missed, as all began too early",
    "missed, as nothing runs",
    "due while all is unread",
    "due while the daemon is stopped",
    "window open at the beginning",
    "window open while clocks change",
    "at risk",
)
_CLOCK_CHANGES = LEAD_MINUTES * 60.0


def test_a_hundred_worlds_have_deadlines_of_every_kind() -> None:
    """Each way in which one may be met, missed or unknown is in the gate at least twice."""
    kinds = Counter(kind for seed in _GATE for kind in _kinds_of_world(world(seed)))
    assert {kind: kinds[kind] for kind in _KINDS if kinds[kind] < 2} == {}


def test_a_hundred_worlds_have_days_without_the_deadline() -> None:
    """Public holidays, dates of one's own and other weekdays take deadlines out of worlds."""
    kinds = Counter(kind for seed in _GATE for kind in _days_off(world(seed)))
    for days in set(DeadlineDays) - {DeadlineDays.EVERY, DeadlineDays.THAT_WEEKDAY}:
        assert kinds[days] >= 5, kinds


def _awaited(made: World) -> list[AwaitedDeadline]:
    zero = made.begins_at or _AT_NOON
    blind = [*made.outages, *made.stops]
    every = awaited_deadlines(made, zero, zero, blind)
    return [each for each in every if each.at < _LONGEST_SECONDS]


def _days_off(made: World) -> Iterator[DeadlineDays]:
    """Yield the days of deadlines by the time that passes, which no clock can have moved."""
    due = {each.deadline for each in _awaited(made)}
    absent = (each for each in made.deadlines if each not in due)
    yield from (each.days for each in absent if not each.is_by_shown_clock)


def _kinds_of_world(made: World) -> Iterator[str]:
    for each in _awaited(made):
        if not each.is_awaited:
            yield "window open at the beginning"
            continue
        yield _outcome(each)
        yield from _circumstances(made, each)


def _outcome(awaited: AwaitedDeadline) -> str:
    if any(awaited.must_meet(success) for success in awaited.successes):
        return "met"
    if any(awaited.must_count(success) for success in awaited.successes):
        return "missed, and met late"
    if any(awaited.may_count(success) for success in awaited.successes):
        return "open"
    return "missed, as all began too early" if awaited.successes else "missed, as nothing runs"


def _circumstances(made: World, awaited: AwaitedDeadline) -> Iterator[str]:
    unread = [*made.outages, *(withdrawal.span for withdrawal in made.withdrawals)]
    if any(span.begin <= awaited.at < span.end for span in unread):
        yield "due while all is unread"
    if any(span.begin <= awaited.at < span.end for span in made.stops):
        yield "due while the daemon is stopped"
    if made.begins_at is not None and awaited.opens < _CLOCK_CHANGES < awaited.at:
        yield "window open while clocks change"
    usual = awaited.deadline.usual_seconds
    if usual is not None and WatchedDeadline(awaited, usual).warned_by() < NEVER:
        yield "at risk"
