"""When reports are due, and which stretch each covers, in both nights in which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerting.reports.report_times import (
    begin_of,
    due_after,
    newest_due,
    skipped_time,
)
from monitor.model.reports import ReportPeriod
from monitor.schedules.written_cron import quartz_expression

BERLIN = "Europe/Berlin"
# The Sundays on which clocks go forward at 02:00 and back at 03:00.
SPRING = datetime(2026, 3, 29, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 25, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("period", "until", "hours"),
    [
        (ReportPeriod.NIGHT, SPRING + 5 * HOUR, 12),  # 18:00 to 07:00
        (ReportPeriod.NIGHT, AUTUMN + 6 * HOUR, 14),
        (ReportPeriod.NIGHT, SPRING + 29 * HOUR, 13),
        (ReportPeriod.DAY, SPRING + 5 * HOUR, 23),
        (ReportPeriod.DAY, AUTUMN + 6 * HOUR, 25),
        (ReportPeriod.WEEK, SPRING + 5 * HOUR, 7 * 24 - 1),
        (ReportPeriod.WEEK, AUTUMN + 6 * HOUR, 7 * 24 + 1),
    ],
)
def test_a_stretch_is_one_of_the_calendar(
    period: ReportPeriod, until: datetime, hours: int
) -> None:
    """It begins at the same wall time, whatever the clocks do in between."""
    since = begin_of(period, until, zone=BERLIN, night="18:00")

    assert until - since == hours * HOUR


def test_a_night_that_begins_when_it_is_due_is_a_whole_day() -> None:
    """The last begin before it, never the very moment."""
    until = datetime(2026, 11, 20, 18, tzinfo=UTC)

    assert until - begin_of(ReportPeriod.NIGHT, until, zone="UTC", night="18:00") == 24 * HOUR


def test_what_is_due_in_the_hour_that_comes_twice_is_due_once() -> None:
    """02:30 of that night is the first of both; the next is of the next night."""
    at = quartz_expression("30 2 * * *")
    due = due_after(at, BERLIN, AUTUMN - HOUR)
    assert due == AUTUMN + timedelta(minutes=30)
    assert due_after(at, BERLIN, due) == AUTUMN + timedelta(hours=25, minutes=30)
    assert newest_due(at, BERLIN, after=due, until=AUTUMN + 5 * HOUR) is None


@pytest.mark.parametrize(
    ("at", "zone", "skipped"),
    [
        ("30 2 * * *", BERLIN, "2026-03-29 02:30"),
        ("0 2 * * *", BERLIN, "2026-03-29 02:00"),
        ("*/10 2 * * 0", BERLIN, "2026-03-29 02:00"),
        ("0 3 * * *", BERLIN, None),
        ("30 2 * * 1-5", BERLIN, None),  # clocks change on Sundays
        ("30 * * * *", BERLIN, None),  # each hour: one less is no loss
        ("30 2 * * *", "UTC", None),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04 02:15"),  # half an hour is skipped
        ("0 0 * * *", "America/Santiago", "2026-09-06 00:00"),
    ],
)
def test_a_time_that_a_zone_skips_is_found(at: str, zone: str, skipped: str | None) -> None:
    """On the first night on which it has no such time."""
    found = skipped_time(quartz_expression(at), zone)

    assert (None if found is None else f"{found:%Y-%m-%d %H:%M}") == skipped


def test_the_newest_due_time_is_found_however_often_it_comes() -> None:
    """Each minute of two weeks, or once in them; and none before the given time."""
    until = datetime(2026, 11, 20, 10, tzinfo=UTC)
    each_minute, monthly = quartz_expression("* * * * *"), quartz_expression("0 7 8 * *")
    after = until - timedelta(days=14)

    assert newest_due(each_minute, "UTC", after=after, until=until) == until
    found = newest_due(monthly, "UTC", after=after, until=until)
    assert found == datetime(2026, 11, 8, 7, tzinfo=UTC)
    assert newest_due(monthly, "UTC", after=found, until=until) is None
