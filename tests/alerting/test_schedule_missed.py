"""Which starts are missed, which are late, and what is no matter of a schedule."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.rules.contract import Firing, Unknown
from monitor.model.live_state import ActiveRun, PipelineHealth
from monitor.model.runs import RunKind, Source, Trigger
from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    OneTimeTrigger,
    UnsupportedTrigger,
)
from tests.alerting.schedule_histories import (
    FLOW,
    GRACE,
    HALF_PAST,
    TEN,
    History,
    at,
    run_of,
    schedule,
)


def test_a_start_that_did_not_come_is_missed_when_grace_is_over() -> None:
    """No sooner, with the schedule and the time, and over with a late start."""
    history = History(schedule(HALF_PAST))
    history.evaluate(at("10:39"))
    assert history.notices == []
    history.evaluate(at("10:40"))
    assert isinstance(history.last, Firing)
    assert (history.last.since, history.last.as_of) == (at("10:30"), at("10:40"))
    assert history.last.facts == {
        "schedule": "s1",
        "expected_at": "2026-11-21T10:30:00Z",
        "missed": 1,
    }

    history.start(at("10:52"))
    history.evaluate(at("10:53"))
    assert history.notices == ["21 10:30", "-21 10:52"]
    assert history.evidence == ("acme:job_group:1:queued",)
    assert history.missed_ever == 1


def test_a_start_in_time_is_no_news() -> None:
    """Every hour a run, some of them late within grace, and one a second before its time."""
    history = History(schedule(HALF_PAST))
    for started in ("10:30:03", "11:38", "12:29:59", "13:30"):
        history.start(at(started))
        history.evaluate(at(started) + timedelta(minutes=21))
    assert history.notices == []
    assert history.missed_ever == 0


def test_several_missed_in_a_row_are_one_alert() -> None:
    """It says how many; the next one that comes ends it, and was in time itself."""
    history = History(schedule(HALF_PAST))
    for clock in ("10:45", "11:45", "12:45"):
        history.evaluate(at(clock))
    assert isinstance(history.last, Firing)
    assert history.last.facts["missed"] == 3
    history.start(at("13:30:02"))
    history.evaluate(at("13:31"))
    assert history.notices == ["21 10:30", "-21 13:30"]
    history.evaluate(at("14:20"))
    assert history.missed_ever == 3


def test_each_miss_fires_although_it_was_over_before_the_evaluation() -> None:
    """After an outage the poll finds what started and what did not, each in its order."""
    history = History(schedule(HALF_PAST))
    for started in ("11:30", "13:30", "14:30"):
        history.start(at(started))
    history.evaluate(at("15:00"))
    assert history.notices == ["21 10:30", "-21 11:30", "21 12:30", "-21 13:30"]


def test_nothing_is_missed_before_runs_and_schedules_are_known() -> None:
    """Without a complete poll, and schedules read after it, the result is unknown."""
    history = History(schedule(HALF_PAST))
    history.evaluate(None)
    assert isinstance(history.last, Unknown)
    history.read_at = at("10:29")
    history.evaluate(at("11:00"), reads=False)
    assert history.notices == []
    assert history.again_at is None  # the next read brings the next evaluation
    history.evaluate(at("11:01"))
    assert history.notices == ["21 10:30"]


def test_a_start_before_the_first_evaluation_is_not_missed() -> None:
    """A start before the first evaluation is unknown, and its pipeline was not followed."""
    history = History(schedule(HALF_PAST), begin=at("10:30:30"))
    history.evaluate(at("11:20"))
    assert history.notices == []
    late = History(begin=TEN)
    late.pipeline_health = (
        PipelineHealth(
            workspace="acme",
            run_kind=RunKind.JOB_GROUP,
            pipeline=FLOW,
            last_started_at=at("10:30:02"),
        ),
    )
    late.schedules = (schedule(HALF_PAST),)
    late.evaluate(at("10:28"))
    late.evaluate(at("10:50"))
    assert late.notices == []


def test_runs_that_no_schedule_started_do_not_count() -> None:
    """A run by hand, and one inside a plan, are not the one that was awaited."""
    history = History(schedule(HALF_PAST))
    history.start(at("10:30:02"), trigger=Trigger.MANUAL)
    history.start(at("10:30:03"), trigger=Trigger.PLAN)
    history.start(at("10:30:04"), kind=RunKind.PLAN_RUN, trigger=Trigger.UNKNOWN)
    history.evaluate(at("10:45"))
    assert history.notices == ["21 10:30"]
    history.start(at("10:46"), trigger=Trigger.UNKNOWN)  # the workspace did not show it
    history.evaluate(at("10:47"))
    assert history.notices == ["21 10:30", "-21 10:46"]


def test_the_parts_of_one_start_are_one_start() -> None:
    """Job groups of one flow run, or of several recipes at once, make up for no other time."""
    history = History(schedule(HALF_PAST))
    for clock in ("11:30:01", "11:30:02"):
        history.start(at(clock), flow_run="7")
    history.evaluate(at("11:45"))
    assert history.notices == ["21 10:30", "-21 11:30"]
    loose = History(schedule(HALF_PAST))
    for recipe in ("4", "5"):
        loose.start(at("11:30:01"), recipe=recipe)
    loose.evaluate(at("11:45"))
    assert loose.notices == ["21 10:30", "-21 11:30"]
    assert history.missed_ever == loose.missed_ever == 1


def test_a_later_job_group_of_a_long_flow_run_is_no_start() -> None:
    """Its last job group comes an hour after the first, just when the next run should."""
    history = History(schedule(HALF_PAST))
    for clock in ("10:30:02", "11:30:02"):
        history.start(at(clock), flow_run=clock)
        history.evaluate(at(clock) + timedelta(minutes=12))
    history.start(at("12:30:05"), flow_run="10:30:02", recipe="9")
    history.evaluate(at("12:45"))
    assert history.notices == ["21 12:30"]


def test_schedules_that_are_not_seen_are_not_guessed() -> None:
    """Another person's schedule starts a flow each hour, and then ends: it was never visible."""
    history = History()
    for hour in range(11, 20):
        history.start(at(f"{hour}:30:01"))
        history.evaluate(at(f"{hour}:50"))
    history.evaluate(at("22 12:00"))
    assert history.notices == []
    assert history.memory is None


def test_a_jam_that_dissolves_makes_up_for_what_was_missed() -> None:
    """Two starts close together after an hour without any: both times have been served."""
    history = History(schedule(HALF_PAST))
    history.start(at("11:30:05"), flow_run="1")
    history.start(at("11:30:07"), flow_run="2")
    history.evaluate(at("11:45"))
    assert history.notices == []


def test_a_run_whose_pipeline_is_known_late_is_found_among_the_active() -> None:
    """Its events named no pipeline, so no rule handled them; the run itself is known by now."""
    history = History(schedule(HALF_PAST))
    history.active = (
        ActiveRun(run=run_of(9, at("10:30:02")), confirmed_at=TEN, confirmed_by=Source.POLL),
    )
    history.evaluate(at("10:45"))
    assert history.notices == []


def test_a_repeated_event_counts_once() -> None:
    """Queued, started, ended: one run, although hours pass between."""
    history = History(schedule(HALF_PAST))
    history.on_event(run_of(9, at("10:30:02")))
    history.evaluate(at("10:45"))
    history.evaluate(at("11:39"))
    history.on_event(run_of(9, at("10:30:02")))
    history.evaluate(at("11:40"))
    assert history.notices == ["21 11:30"]


def test_watchers_and_what_cannot_be_read_expect_nothing() -> None:
    """A file watcher names no time; an invalid expression neither."""
    unreadable = CronTrigger(expression="every day")
    history = History(schedule(UnsupportedTrigger(kind="fileWatcher"), unreadable))
    history.evaluate(at("22 10:00"))
    assert history.notices == []
    history.schedules = (schedule(unreadable, HALF_PAST, updated_at=at("22 10:01")),)
    history.evaluate(at("22 10:02"))
    history.evaluate(at("22 10:45"))
    assert history.notices == ["22 10:30"]


def test_one_time_that_did_not_come_ends_with_any_start() -> None:
    """Nothing else is to come, so any start of the pipeline ends it.

    That the workspace switches such a schedule off does not.
    """
    once = OneTimeTrigger(at=at("10:20"))
    history = History(schedule(once))
    history.schedules = (schedule(once, is_enabled=False, updated_at=at("10:20:01")),)
    history.evaluate(at("10:25"))
    history.evaluate(at("10:31"))
    history.evaluate(at("12:00"))
    assert history.notices == ["21 10:20"]
    history.start(at("12:05"), trigger=Trigger.MANUAL)
    history.evaluate(at("12:06"))
    assert history.notices == ["21 10:20", "-21 12:05"]


def test_a_schedule_that_was_switched_off_is_not_awaited_any_more() -> None:
    """Switched off, or deleted: the alert is over as of then."""
    history = History(schedule(HALF_PAST))
    history.evaluate(at("10:45"))
    history.schedules = (schedule(HALF_PAST, is_enabled=False, updated_at=at("11:05")),)
    history.evaluate(at("11:10"))
    assert history.notices == ["21 10:30", "-21 11:05"]
    gone = History(schedule(HALF_PAST))
    gone.evaluate(at("10:45"))
    gone.schedules = ()
    gone.evaluate(at("11:10"))
    assert gone.notices == ["21 10:30", "-21 11:10"]
    gone.evaluate(at("11:20"))
    assert gone.memory is None


def test_a_rule_may_expect_starts_of_no_visible_schedule() -> None:
    """For pipelines whose schedules belong to others, by any start."""
    history = History(expect="0 0 2 ? * MON-FRI", timezone="Europe/Berlin")
    history.evaluate(at("23 00:00"))
    assert history.notices == []  # a weekend
    history.evaluate(at("23 01:15"))  # two in Berlin is one
    assert history.notices == ["23 01:00"]
    history.start(at("23 08:00"), trigger=Trigger.API)
    history.evaluate(at("23 08:01"))
    history.start(at("24 01:00:05"), trigger=Trigger.MANUAL)
    history.evaluate(at("24 09:00"))
    assert history.notices == ["23 01:00", "-23 08:00"]


def test_another_expression_starts_over() -> None:
    """A changed rule does not apply to the past."""
    history = History(expect="0 0 * * * ?")
    history.evaluate(at("11:05"))
    history.rule = type(history.rule)(
        name="x", rule=history.rule.rule, expect="0 45 * * * ?", threshold=600.0
    )
    history.evaluate(at("11:50"))
    history.evaluate(at("12:50"))
    assert history.notices == []
    history.evaluate(at("12:56"))
    assert history.notices == ["21 12:45"]
    history.rule = msgspec.structs.replace(history.rule, expect_timezone="Asia/Kathmandu")
    history.evaluate(at("13:00"))
    history.evaluate(at("13:30"))
    assert history.missed_ever == 0


def test_an_alert_whose_memory_is_gone_is_over() -> None:
    """Another expression, or a memory that cannot be decoded: else it would fire forever."""
    history = History(expect="0 30 * * * ?")
    history.evaluate(at("10:45"))
    history.rule = msgspec.structs.replace(history.rule, expect="0 50 * * * ?")
    history.evaluate(at("10:46"))
    assert history.notices == ["21 10:30", "-21 10:46"]
    lost = History(schedule(HALF_PAST))
    lost.evaluate(at("10:45"))
    lost.memory_bytes = b""
    lost.evaluate(at("10:47"))
    assert lost.notices == ["21 10:30", "-21 10:47"]


def test_days_without_news_write_nothing() -> None:
    """An evaluation that changes nothing leaves the memory as it is, so nothing is stored."""
    history = History(schedule(DailyTrigger(hour_of_day=2, minute_of_hour=0)))
    before = history.writes
    for minutes in range(0, 700, 5):
        history.evaluate(TEN + timedelta(minutes=minutes))
    assert history.writes == before
    assert history.again_at == at("22 02:10")


@pytest.mark.parametrize("hours", [1, 4])
def test_kept_starts_are_bounded(hours: int) -> None:
    """A start each ten seconds while none is evaluated: too many fire nothing."""
    history = History(schedule(CronTrigger(expression="0/10 * * * * ?")))
    begin = at("10:00:10")
    for number in range(hours * 360):
        history.start(begin + timedelta(seconds=10 * number), flow_run=str(number))
    assert len(history.memory_bytes) < 200_000
    history.evaluate(begin + timedelta(hours=hours, seconds=-5))
    assert history.notices == []


EVERY = {
    1: "0 * * * * ?",
    5: "0 0/5 * * * ?",
    15: "0 0/15 * * * ?",
    60: "0 0 * * * ?",
    240: "0 0 0/4 * * ?",
}


@given(
    gap=st.sampled_from(list(EVERY)),
    fates=st.lists(st.none() | st.floats(0, 0.85), min_size=1, max_size=30),
    looks=st.floats(0.05, 3),
)
def test_any_late_starts_are_distinguished_from_missed_ones(
    gap: int, fates: list[float | None], looks: float
) -> None:
    """Of times that are skipped, or met with a delay, the skipped are missed, at any interval.

    Each row of them fires once, and is ended by what came next.
    """
    history = History(schedule(CronTrigger(expression=EVERY[gap])), begin=at("00:30"))
    minutes = timedelta(minutes=gap)
    first = at("01:00") if gap < 240 else at("04:00")
    expected = [first + minutes * number for number in range(len(fates))]
    delays = dict(zip(expected, fates, strict=True))
    delays |= {expected[-1] + minutes * number: 0.0 for number in range(1, 60)}
    begin, end = at("00:30"), expected[-1] + 3 * minutes + 2 * GRACE
    delays |= {
        begin + timedelta(minutes=number): 0.0
        for number in range(31)
        if gap < 60 and begin.minute + number < 60 and number % gap == 0
    }
    starts = sorted(
        other_delay + min(minutes, GRACE) * delay
        for other_delay, delay in delays.items()
        if delay is not None
    )
    now = begin
    while now < end:
        now += max(minutes * looks, timedelta(seconds=30))
        while starts and starts[0] <= now:
            started_at = starts.pop(0)
            history.start(started_at, flow_run=started_at.isoformat())
        history.evaluate(now)
    assert history.missed_ever == fates.count(None)
    rows = "".join("x" if fate is None else "." for fate in fates).split(".")
    assert len(history.notices) == 2 * sum(bool(row) for row in rows)
