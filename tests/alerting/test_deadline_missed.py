"""A success is due by a time of the day: met, missed, met late, seen late."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from monitor.alerting.rules.contract import PIPELINE_REMOVED, Ok, Unknown
from monitor.alerting.rules.deadline_settings import Counts
from monitor.model.events import EventType
from monitor.model.runs import Parents, RunKind, Status
from tests.alerting.deadline_histories import History, on, run


def test_a_deadline_without_a_success_fires_until_the_next_one() -> None:
    """From the deadline on, resolved at the success, which says by how much it was late."""
    history = History()
    history.evaluate("06:59")
    assert history.notices == []
    assert history.again_at == on("07:00")
    history.evaluate("07:00")
    history.succeed(1, "06:40", "08:20")
    history.evaluate("08:21")
    assert history.notices == ["Mon 07:00", "-Mon 08:20"]
    assert (history.counts, history.met) == ((0, 1), [])


def test_a_success_in_time_meets_it_at_once() -> None:
    """It is published when it is known, once, and not first at the deadline."""
    history = History()
    history.succeed(1, "03:00", "04:00")
    history.evaluate("04:01")
    assert history.met_days == ["Mon"]
    assert (history.met[0].at, history.met[0].ended_at) == (on("07:00"), on("04:00"))
    history.succeed(2, "05:00", "05:10")
    history.evaluate("Tue 00:00")
    assert (history.notices, history.met_days, history.counts) == ([], ["Mon"], (1, 0))


def test_an_outage_over_the_deadline_is_no_missed_one() -> None:
    """Nothing is decided while nothing is read; the success that ended in time meets it after."""
    history = History()
    history.evaluate("06:30")
    history.evaluate("06:30")
    history.succeed(1, "05:00", "06:45")
    history.evaluate("11:00")
    assert (history.notices, history.met_days) == ([], ["Mon"])


def test_an_outage_that_hides_a_late_success_fires_and_resolves_at_once() -> None:
    """By the times of deadline and success, not by when both were seen."""
    history = History()
    history.evaluate("06:30")
    history.succeed(1, "06:00", "07:45")
    history.evaluate("11:00")
    assert history.notices == ["Mon 07:00-Mon 07:45"]
    assert history.counts == (0, 1)


def test_a_success_that_is_read_after_the_deadline_was_missed_meets_it_after_all() -> None:
    """The alert is over for that reason, and the deadline is published as met."""
    history = History()
    history.evaluate("07:05")
    history.succeed(1, "05:00", "06:59")
    history.evaluate("07:10")
    assert history.notices == ["Mon 07:00", "-Mon 07:00"]
    assert (history.met_days, history.counts) == (["Mon"], (1, 1))


def test_a_success_that_is_read_when_the_alert_is_over_meets_the_deadline_after_all() -> None:
    """Also one of several deadlines that were missed in a row; each is published once."""
    history = History()
    history.evaluate("07:05")
    history.succeed(1, "07:10", "07:30")
    history.evaluate("07:31")
    assert (history.notices, history.met_days) == (["Mon 07:00", "-Mon 07:30"], [])
    history.succeed(2, "05:00", "06:59")
    history.evaluate("07:40")
    assert (history.met_days, history.counts) == (["Mon"], (1, 1))
    history.succeed(3, "05:00", "06:58")
    history.evaluate("Thu 08:00")
    history.succeed(4, "Wed 05:00", "Wed 06:59")
    history.evaluate("Thu 08:10")
    assert history.notices[2:] == ["Tue 07:00", "-Wed 06:59", "Thu 07:00"]
    assert (history.met_days, history.counts) == (["Mon", "Wed"], (2, 4))


def test_the_ends_of_all_kinds_of_runs_must_be_known() -> None:
    """The end of a flow run is read after its job groups, and may have been in time."""
    history = History()
    history.evaluate("07:01", ends="06:58")
    assert history.notices == []
    history.succeed(1, "05:00", "06:59")
    history.evaluate("07:02", ends="07:02")
    assert (history.notices, history.met_days) == ([], ["Mon"])


def test_before_the_first_complete_poll_nothing_is_decided() -> None:
    """Neither is a memory begun, nor does an old one change."""
    history = History(begin="05:00")
    history.evaluate(None)
    assert isinstance(history.last, Unknown)
    assert history.notices == []


def test_days_without_the_deadline_are_left_out() -> None:
    """Neither weekend nor holiday nor a date of one's own has one."""
    history = History(deadline_days="Mon-Fri", holiday_dates=("2026-11-25",))
    for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"):
        history.evaluate(f"{day} 07:00")
        history.succeed(ord(day[0]), f"{day} 07:00", f"{day} 07:30")
        history.evaluate(f"{day} 07:31")
    starts = [notice for notice in history.notices if not notice.startswith("-")]
    assert starts == ["Mon 07:00", "Tue 07:00", "Thu 07:00", "Fri 07:00"]


def test_deadlines_missed_in_a_row_are_one_alert() -> None:
    """It says how many there were, and ends with the first success, which meets what it can."""
    history = History()
    history.evaluate("07:01")
    history.evaluate("Tue 07:01")
    history.evaluate("Wed 07:01")
    assert history.notices == ["Mon 07:00"]
    assert history.memory is not None
    assert history.memory.missed_in_a_row == 3
    history.succeed(1, "Thu 03:00", "Thu 03:30")
    history.evaluate("Thu 03:31")
    assert history.notices == ["Mon 07:00", "-Thu 03:30"]
    assert (history.met_days, history.counts) == (["Thu"], (1, 3))


@pytest.mark.parametrize(
    ("counts", "started", "ended", "is_met"),
    [
        (Counts.STARTED, "Mon 23:50", "Tue 01:00", False),
        (Counts.ENDED, "Mon 23:50", "Tue 01:00", True),
        (Counts.STARTED, "Tue 00:00", "Tue 07:00", True),
        (Counts.ENDED, "Tue 00:00", "Tue 07:01", False),
    ],
)
def test_a_success_counts_by_its_start_or_by_its_end(
    counts: Counts, started: str, ended: str, *, is_met: bool
) -> None:
    """The window begins at ``counts_from``, the deadline itself is in time."""
    history = History(begin="12:00", counts=counts)
    history.succeed(1, started, ended)
    history.evaluate("Tue 07:00")
    assert (history.met_days == ["Tue"]) is is_met
    assert bool(history.notices) is not is_met


def test_a_window_may_begin_on_the_day_before() -> None:
    """A time that is not before the deadline is of the day before."""
    history = History(begin="12:00", counts_from="18:00")
    history.succeed(1, "17:00", "17:59")
    history.evaluate("19:00")
    assert history.met == []
    history.succeed(2, "18:00", "20:00")
    history.evaluate("20:01")
    assert history.met_days == ["Tue"]


def test_overlapping_runs_meet_it_by_the_first_that_ends() -> None:
    """A later end of the other run changes nothing, in whatever order both are seen."""
    history = History()
    history.succeed(2, "04:00", "06:30")
    history.succeed(1, "03:00", "05:00")
    history.evaluate("06:40")
    assert [met.ended_at for met in history.met] == [on("05:00")]


def test_parts_of_a_flow_run_meet_nothing() -> None:
    """The flow run shows when all of it is done; a job group by itself stands for the flow."""
    history = History()
    history.succeed(1, "03:00", "04:00", kind=RunKind.JOB_GROUP, parents=Parents(flow_run="9"))
    history.evaluate("05:00")
    assert history.met == []
    history.succeed(2, "03:00", "04:30", kind=RunKind.JOB_GROUP)
    history.evaluate("05:01")
    assert history.met_days == ["Mon"]


def test_failures_meet_nothing() -> None:
    """Nor does what only a callback has reported, until the workspace confirms it."""
    history = History()
    history.handle(run(1, on("03:00"), on("04:00"), status=Status.FAILED))
    ended = run(2, on("03:00"), on("04:00"))
    history.handle(msgspec.structs.replace(ended, unconfirmed_end=Status.SUCCEEDED))
    history.evaluate("05:00")
    assert history.met == []
    history.handle(ended, EventType.RUN_CONFIRMED)
    history.evaluate("05:01")
    assert history.met_days == ["Mon"]


def test_a_corrected_success_takes_back_what_it_has_met() -> None:
    """The deadline fires if nothing else meets it, and is not published as met again."""
    history = History()
    ended = history.succeed(1, "03:00", "04:00")
    history.evaluate("05:00")
    history.handle(run(1, on("03:00"), on("04:00"), status=Status.FAILED), EventType.RUN_CORRECTED)
    history.evaluate("05:01")
    history.succeed(2, "05:00", "06:00")
    history.evaluate("07:00")
    assert (history.notices, history.met_days, history.counts) == ([], ["Mon"], (1, 0))
    history.handle(run(2, on("05:00"), on("06:00"), status=Status.FAILED), EventType.RUN_CORRECTED)
    history.evaluate("07:10")
    assert (history.notices, history.counts) == (["Mon 07:00"], (1, 1))
    history.handle(ended)
    history.evaluate("07:20")
    assert history.notices == ["Mon 07:00", "-Mon 07:00"]
    assert (history.met_days, history.counts) == (["Mon"], (1, 1))


def test_a_success_before_the_first_evaluation_counts_by_the_health_of_the_pipeline() -> None:
    """No event brought it; the same holds for a run whose pipeline became known late."""
    before = run(1, on("03:00"), on("04:00"))
    history = History(begin="05:00", health=[before])
    history.evaluate("07:00")
    assert (history.notices, history.met_days) == ([], ["Mon"])
    history.health = (run(2, on("Tue 03:00"), on("Tue 04:00")),)
    history.evaluate("Tue 07:00")
    assert history.met_days == ["Mon", "Tue"]


def test_a_window_that_was_open_before_anything_was_known_is_left_out() -> None:
    """It fires only where a former success proves that none has come since."""
    unknown = History(begin="05:00")
    unknown.evaluate("07:00")
    assert unknown.notices == []
    unknown.evaluate("Tue 07:00")
    assert unknown.notices == ["Tue 07:00"]
    former = run(1, on("03:00") - timedelta(days=1), on("04:00") - timedelta(days=1))
    known = History(begin="05:00", health=[former])
    known.evaluate("07:00")
    assert known.notices == ["Mon 07:00"]


def test_other_terms_end_the_alert_and_begin_another_memory() -> None:
    """The counts stay, and a day is not published twice."""
    history = History()
    history.evaluate("07:00")
    history.rule = History(deadline="09:00").rule
    history.evaluate("08:00")
    assert history.last == Ok(at=on("08:00"))
    assert history.counts == (0, 1)


def test_a_deleted_pipeline_has_no_deadline() -> None:
    """An alert of it is over for good, and nothing is kept."""
    history = History()
    history.evaluate("07:00")
    history.is_deleted = True
    history.evaluate("07:10")
    assert history.last == Ok(at=on("07:10"), reason=PIPELINE_REMOVED)
    assert history.memory is None


def test_a_pipeline_of_every_minute_keeps_little() -> None:
    """Neither memory nor writes grow with its runs, over an outage of days too."""
    history = History(begin="00:00")
    for minute in range(600):
        started = on("00:00") + timedelta(minutes=minute)
        history.handle(run(minute, started, started + timedelta(seconds=50)))
        if minute % 10 == 0:
            history.evaluate(started)
    assert history.met_days == ["Mon"]
    assert history.writes < 30
    for minute in range(2_000):
        started = on("17:00") + timedelta(minutes=minute)
        history.handle(run(10_000 + minute, started, started + timedelta(seconds=50)))
    assert len(history.memory_bytes) < 10_000
    history.evaluate("Wed 01:00")
    assert history.met_days == ["Mon", "Tue", "Wed"]
    assert history.notices == []
