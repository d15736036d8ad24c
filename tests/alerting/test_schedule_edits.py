"""Schedules that are edited, switched and deleted while a rule waits for what they start."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.live_state import ScheduleKnown
from monitor.model.triggers import CronTrigger, DailyTrigger, HourlyTrigger, ScheduleTrigger
from monitor.schedules import times_between
from tests.alerting.schedule_histories import GRACE, HALF_PAST, TEN, History, at, schedule

QUARTER_TO = HourlyTrigger(minute_of_hour=45)


def test_an_edit_counts_from_when_it_was_made() -> None:
    """Starts that the old definition named before count, and those of the new one since."""
    history = History(schedule(HALF_PAST))
    history.evaluate(at("10:35"))
    history.schedules = (schedule(QUARTER_TO, updated_at=at("10:37")),)
    history.evaluate(at("10:40"))
    history.evaluate(at("10:44"))
    assert history.notices == ["21 10:30"]
    history.start(at("10:45:03"))
    history.evaluate(at("11:56"))
    assert history.notices == ["21 10:30", "-21 10:45", "21 11:45"]


def test_a_time_that_an_edit_may_have_removed_is_not_missed() -> None:
    """Written last at 10:32, but its hour may have been changed at 10:29, before the name was."""
    history = History(schedule(HALF_PAST))
    history.evaluate(at("10:27"))
    history.schedules = (schedule(QUARTER_TO, updated_at=at("10:32")),)
    history.evaluate(at("10:33"))
    history.evaluate(at("10:44"))
    assert history.notices == []
    both = History(schedule(HALF_PAST))
    both.evaluate(at("10:27"))
    both.schedules = (schedule(HALF_PAST, QUARTER_TO, updated_at=at("10:32")),)
    both.evaluate(at("10:33"))
    both.evaluate(at("10:44"))
    assert both.notices == ["21 10:30"]


def test_an_edit_during_an_outage_of_the_daemon_is_dated() -> None:
    """The schedules were not read for hours; the last write is when the new definition begins."""
    history = History(schedule(HALF_PAST))
    history.start(at("10:30:01"))
    history.evaluate(at("10:45"))
    history.read_at = None  # another life: nothing is known but what was stored
    history.schedules = (schedule(QUARTER_TO, updated_at=at("12:00")),)
    history.evaluate(at("14:50"))
    assert history.notices == ["21 12:45"]
    assert history.missed_ever == 2


def test_a_schedule_without_dates_counts_from_the_reading() -> None:
    """The workspace does not say when it was written: what was expected meanwhile is not missed."""
    history = History(schedule(HALF_PAST))
    history.evaluate(at("10:25"))
    history.schedules = (schedule(QUARTER_TO),)
    history.evaluate(at("10:50"))
    history.evaluate(at("11:44"))
    assert history.notices == []
    history.evaluate(at("11:56"))
    assert history.notices == ["21 11:45"]


def test_switching_off_and_on_again() -> None:
    """Starts while it was off are not missed; starts after that are."""
    history = History(schedule(HALF_PAST))
    history.evaluate(at("10:25"))
    history.schedules = (schedule(HALF_PAST, is_enabled=False, updated_at=at("10:26")),)
    history.evaluate(at("10:30"))
    history.evaluate(at("12:00"))
    history.schedules = (schedule(HALF_PAST, updated_at=at("12:10")),)
    history.evaluate(at("12:15"))
    history.evaluate(at("12:41"))
    assert history.notices == ["21 12:30"]
    assert history.missed_ever == 1


def test_off_and_on_between_two_readings_is_no_change() -> None:
    """It says the same as before, so what it names is awaited as before."""
    history = History(schedule(HALF_PAST))
    history.evaluate(at("10:25"))
    history.schedules = (schedule(HALF_PAST, updated_at=at("10:29")),)
    history.evaluate(at("10:41"))
    assert history.notices == ["21 10:30"]


def test_two_schedules_of_one_flow_are_one_row_of_times() -> None:
    """Each time once, although both name it; the alert names the schedule of the time."""
    history = History(schedule(HALF_PAST), schedule(HALF_PAST, QUARTER_TO, schedule_id="2"))
    history.start(at("10:30:02"))
    history.evaluate(at("10:41"))
    assert history.notices == []
    history.start(at("10:45:02"))
    history.evaluate(at("11:41"))
    assert history.notices == ["21 11:30"]
    assert history.memory is not None
    assert history.memory.missed[0].schedules == "s1, s2"


def test_a_new_schedule_of_a_watched_flow_counts_from_its_making() -> None:
    """Made between two readings, it is known from when on; one that was hidden is not."""
    history = History(schedule(DailyTrigger(hour_of_day=3, minute_of_hour=0)))
    history.evaluate(at("10:25"))
    made = schedule(HALF_PAST, schedule_id="2", created_at=at("10:27"), updated_at=at("10:27"))
    history.schedules = (*history.schedules, made)
    history.evaluate(at("10:32"))
    history.evaluate(at("10:41"))
    assert history.notices == ["21 10:30"]
    hidden = History(schedule(DailyTrigger(hour_of_day=3, minute_of_hour=0)))
    hidden.evaluate(at("10:25"))
    shown = msgspec.structs.replace(made, created_at=at("1 10:00"), updated_at=at("1 10:00"))
    hidden.schedules = (*hidden.schedules, shown)
    hidden.evaluate(at("10:32"))
    hidden.evaluate(at("10:41"))
    assert hidden.notices == []


def test_a_validity_that_ends_expects_nothing_more() -> None:
    """The last moment of the range may fire, and nothing after it is awaited."""
    ending = HourlyTrigger(minute_of_hour=30, valid_until=at("11:30"))
    history = History(schedule(ending))
    history.evaluate(at("11:00"))
    history.evaluate(at("11:45"))
    history.evaluate(at("13:00"))
    assert history.notices == ["21 10:30"]
    assert history.missed_ever == 2
    assert history.again_at is None


def test_history_is_bounded() -> None:
    """An edit each minute for a day leaves a small memory, and times that are certain."""
    history = History(schedule(HALF_PAST))
    for minutes in range(1, 200):
        now = TEN + timedelta(minutes=minutes)
        history.schedules = (schedule(HourlyTrigger(minute_of_hour=minutes % 60), updated_at=now),)
        history.evaluate(now + timedelta(seconds=10))
    assert history.memory is not None
    assert len(history.memory.definitions) <= 21


# What a schedule may say; None: it is deleted.
SAYS: tuple[tuple[ScheduleTrigger, ...] | None, ...] = (
    (CronTrigger(expression="0 0/10 * * * ?"),),
    (CronTrigger(expression="0 3/15 * * * ?"),),
    (HourlyTrigger(minute_of_hour=20), HourlyTrigger(minute_of_hour=50)),
    (CronTrigger(expression="0 0/20 * * * ?", timezone="Asia/Kathmandu"),),
    (),
    None,
)


@given(
    edits=st.lists(st.tuples(st.integers(3, 300), st.sampled_from(range(len(SAYS)))), max_size=8),
    skipped=st.sets(st.integers(0, 60)),
    outages=st.lists(st.tuples(st.integers(10, 300), st.integers(5, 60)), max_size=2),
)
def test_edits_hide_nothing_and_make_nothing_up(
    edits: list[tuple[int, int]], skipped: set[int], outages: list[tuple[int, int]]
) -> None:
    """Whatever is edited whenever: nothing that started, or was not to start, is missed.

    What was skipped is found, unless it is edited before its grace is over.
    """
    readings = [
        TEN + timedelta(minutes=minutes)
        for minutes in range(0, 400, 5)
        if not any(begin <= minutes < begin + length for begin, length in outages)
    ]
    says = _in_force(edits, readings)
    expected = _expected(says, readings[-1])
    starts = [item for number, item in enumerate(expected) if number not in skipped]
    skips = {item for number, item in enumerate(expected) if number in skipped}
    history = History(*_shown(says, TEN))
    missed: set[datetime] = set()
    for now in readings[1:]:
        while starts and starts[0] + timedelta(seconds=5) <= now:
            started_at = starts.pop(0) + timedelta(seconds=5)
            history.start(started_at, flow_run=started_at.isoformat())
        history.schedules = _shown(says, now)
        history.evaluate(now)
        missed |= history.missed
    sure = {skip for skip in skips if _is_sure(skip, says, readings)}
    assert missed <= skips
    assert sure <= missed


Said = tuple[datetime, tuple[ScheduleTrigger, ...] | None]


def _in_force(edits: list[tuple[int, int]], readings: list[datetime]) -> list[Said]:
    """Return the definitions of the schedule over time; a deleted one does not come back.

    Of several edits between two reads only the last can be seen, so there is one.
    """
    said: list[Said] = [(TEN - timedelta(days=1), SAYS[0])]
    for minutes, choice in sorted(edits):
        at = TEN + timedelta(minutes=minutes, seconds=30)
        is_alone = _read_after(said[-1][0], readings) < _read_after(at, readings)
        if said[-1][1] is not None and SAYS[choice] != said[-1][1] and is_alone:
            said.append((at, SAYS[choice]))
    return said


def _expected(says: list[Said], end: datetime) -> list[datetime]:
    ends = [since for since, _ in says[1:]] + [end]
    return [
        at
        for (since, triggers), until in zip(says, ends, strict=True)
        for at in times_between(triggers or (), max(since, TEN), until, limit=1_000)
    ]


def _shown(says: list[Said], now: datetime) -> tuple[ScheduleKnown, ...]:
    since, triggers = [say for say in says if say[0] <= now][-1]
    if triggers is None:
        return ()
    if not triggers:
        return (schedule(HALF_PAST, is_enabled=False, updated_at=since),)
    return (schedule(*triggers, updated_at=since),)


def _read_after(at: datetime, readings: list[datetime]) -> datetime:
    return next((reading for reading in readings if reading >= at), readings[-1])


def _is_sure(at: datetime, says: list[Said], readings: list[datetime]) -> bool:
    """True where a time was evaluated before the next edit was read."""
    if at <= TEN + timedelta(minutes=1) or at + GRACE > readings[-1]:
        return False
    for since, _ in says[1:]:
        if at <= since and _read_after(since, readings) <= _read_after(at + GRACE, readings):
            return False
    return True
