"""The judge of deadlines: silent where all is true, and not where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pytest

from tests.worlds.deadline_examples import (
    AT,
    DEADLINE,
    RULE,
    example_world,
    run_of,
    said_alert,
    said_met,
    texts_of,
)
from tests.worlds.impairments import ListName, Refusal, Span, Withdrawal
from tests.worlds.received import Arrival
from tests.worlds.script import DeadlineDays, End, World

_PUNCTUAL = example_world(run_of(150))
_LATE = example_world(run_of(400))
_BRIEF = example_world(run_of(220))
_SEEN_LATE = example_world(run_of(200, shown_from=310))
_NEVER = example_world(run_of(150, end=End.FAILED))


def test_true_histories_have_no_findings() -> None:
    """Met, missed for good, missed and over, missed and seen to be met after all: all is true."""
    fired, over = said_alert(255, "fired"), said_alert(405, "resolved")
    assert texts_of(_PUNCTUAL, said_met(155)) == []
    assert texts_of(_NEVER, fired) == []
    assert texts_of(_LATE, fired, over) == []
    assert texts_of(_SEEN_LATE, fired, said_met(315), said_alert(315, "resolved")) == []
    assert texts_of(_SEEN_LATE, said_met(315)) == []


BROKEN = [
    (_PUNCTUAL, (), "is not reported as met by"),
    (_NEVER, (), "is not reported by"),
    (_PUNCTUAL, (said_met(155), said_met(157, number=2)), "is reported as met at [155, 157]"),
    (
        _NEVER,
        (said_alert(255, "fired"), said_alert(290, "fired", number=2)),
        "is reported as missed at [",
    ),
    (
        _PUNCTUAL,
        (said_met(155), said_alert(255, "fired")),
        "is reported as missed at 255.0 and was met",
    ),
    (_SEEN_LATE, (said_alert(255, "fired"), said_met(315)), "was met at 315.0 and is still missed"),
    (_PUNCTUAL, (said_met(140),), "is reported as met at 140.0, and no success is known"),
    (_NEVER, (said_met(155),), "is reported as met at 155.0, and no success is known"),
    (_NEVER, (said_alert(230, "fired"),), "is reported as missed at 230.0, before its time"),
    (
        _PUNCTUAL,
        (said_alert(255, "fired"), said_met(256), said_alert(256, "resolved")),
        "150 has met it",
    ),
    (
        _BRIEF,
        (said_alert(255, "fired"), said_met(256), said_alert(256, "resolved")),
        "220 was shown before",
    ),
    (
        _SEEN_LATE,
        (said_alert(435, "fired"), said_alert(436, "resolved"), said_met(436)),
        "200 has met it",
    ),
    (
        _LATE,
        (said_alert(255, "fired"), said_alert(300, "resolved")),
        "is no longer missed at 300.0",
    ),
    (_LATE, (said_alert(255, "fired"),), "is missed until 700.0; a success was due by"),
    (_PUNCTUAL, (said_met(155), said_met(400, flow=3, number=2)), f"{RULE} of flow/3 at"),
]


@pytest.mark.parametrize(("world", "arrivals", "text"), BROKEN)
def test_a_broken_history_is_found(world: World, arrivals: Sequence[Arrival], text: str) -> None:
    """Nothing, twice, both, early, without a success, against one, or not over: all is found."""
    assert any(text in found for found in texts_of(world, *arrivals)), texts_of(world, *arrivals)


def test_the_second_pass_of_a_repeated_hour_has_no_deadline() -> None:
    """02:59 comes again an hour later; who reports that as missed, or waits for it, is found."""
    second = said_alert(3_900, "fired", deadline=AT + 3_600, number=2)
    again = texts_of(_NEVER, said_alert(255, "fired"), second)
    assert again == [f"{RULE} of 1 at 2026-10-25 01:59:00+00:00 is reported as missed at 3900.0"]
    only_again = texts_of(_NEVER, second)
    assert any("is not reported by" in text for text in only_again)


@pytest.mark.parametrize("is_refused", [False, True])
def test_who_is_blind_reports_nothing_as_missed(*, is_refused: bool) -> None:
    """In an outage, or while the list is refused, no miss can be known; afterwards it is."""
    span = Span(200, 400)
    refused = Withdrawal(
        span=span, lists=frozenset({ListName.JOB_GROUPS}), refusal=Refusal.FORBIDDEN
    )
    impairment = {"withdrawals": (refused,)} if is_refused else {"outages": (span,)}
    world = msgspec.structs.replace(_NEVER, **impairment)
    early = texts_of(world, said_alert(255, "fired"), blind=[span])
    assert early == ["is reported as missed at 255.0, and nothing is read since 200"]
    assert texts_of(world, said_alert(420, "fired"), blind=[span]) == []


def test_a_stopped_daemon_has_more_time() -> None:
    """What is decided while it is stopped is reported after its start, and must be."""
    stop = Span(230, 300)
    assert texts_of(_NEVER, said_alert(330, "fired"), stops=[stop]) == []
    assert any("is not reported by" in text for text in texts_of(_NEVER, stops=[stop]))


@pytest.mark.parametrize("days", [DeadlineDays.OTHER_WEEKDAYS, DeadlineDays.NOT_THAT_DATE])
def test_a_day_without_the_deadline_is_silent(days: DeadlineDays) -> None:
    """Another weekday, and a date of one's own, have none: a report of it is found."""
    off = msgspec.structs.replace(DEADLINE, days=days)
    world = msgspec.structs.replace(_NEVER, deadlines=(off,))
    assert texts_of(world) == []
    assert "is reported as missed" in texts_of(world, said_alert(255, "fired"))[0]


def test_a_holiday_is_silent_where_it_is_one() -> None:
    """On Easter Sunday Brandenburg has no deadline to miss or meet; the rest of Germany has it."""
    easter = datetime(2027, 3, 28, 0, 55, tzinfo=UTC)
    fired, met = said_alert(255, "fired", zero=easter), said_met(155, zero=easter)
    for region, is_holiday in (("DE-BB", True), ("DE", False)):
        off = msgspec.structs.replace(DEADLINE, days=DeadlineDays.NO_HOLIDAYS, region=region)
        world = msgspec.structs.replace(_NEVER, deadlines=(off,), begins_at=easter)
        assert (texts_of(world) == []) is is_holiday
        assert (texts_of(world, fired) == []) is not is_holiday
        punctual = msgspec.structs.replace(world, job_groups=_PUNCTUAL.job_groups)
        assert (texts_of(punctual) == []) is is_holiday
        assert (texts_of(punctual, met) == []) is not is_holiday


def test_a_window_that_was_open_at_the_beginning_is_left_out() -> None:
    """What succeeded in it before is not known, so its first deadline is not reported."""
    open_before = msgspec.structs.replace(DEADLINE, opens_minutes=-20)
    world = msgspec.structs.replace(_NEVER, deadlines=(open_before,))
    assert texts_of(world) == []
    assert "its window was open" in texts_of(world, said_alert(255, "fired"))[0]


def test_a_success_that_began_before_the_window_does_not_count_unless_its_end_does() -> None:
    """A run across the begin of the window meets the deadline only where ends count."""
    across = example_world(run_of(70))
    assert texts_of(across, said_alert(255, "fired")) == []
    assert any("no success is known" in text for text in texts_of(across, said_met(75)))
    by_end = msgspec.structs.replace(DEADLINE, counts="ended")
    across = msgspec.structs.replace(across, deadlines=(by_end,))
    assert texts_of(across, said_met(75)) == []
