"""The arithmetic of deadlines on the nights when clocks change, against times written by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.worlds.deadline_scripts import HOLIDAYS, NIGHTS, Night
from tests.worlds.deadline_times import WrittenDeadline, due_between, first_instant
from tests.worlds.generator import BATCH, world
from tests.worlds.script import DeadlineDays

_WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@pytest.mark.parametrize(
    ("zone", "shown", "instant"),
    [
        ("Europe/Berlin", "2027-03-28T01:59", "2027-03-28T00:59"),
        ("Europe/Berlin", "2027-03-28T02:02", "2027-03-28T01:00"),  # skipped
        ("Europe/Berlin", "2027-03-28T03:02", "2027-03-28T01:02"),
        ("Europe/Berlin", "2026-10-25T02:59", "2026-10-25T00:59"),  # the first of two
        ("Europe/Berlin", "2026-10-25T03:00", "2026-10-25T02:00"),
        ("Asia/Beirut", "2027-03-28T00:02", "2027-03-27T22:00"),  # skipped at midnight
        ("Asia/Beirut", "2026-10-24T23:30", "2026-10-24T20:30"),  # the first of two
        ("Asia/Beirut", "2026-10-25T00:00", "2026-10-24T22:00"),
        ("Australia/Lord_Howe", "2026-10-04T02:10", "2026-10-03T15:30"),  # half an hour
        ("Australia/Lord_Howe", "2027-04-04T01:45", "2027-04-03T14:45"),
    ],
)
def test_a_time_of_the_day_is_the_first_that_is_shown(zone: str, shown: str, instant: str) -> None:
    """One that is skipped is when the gap ends, of one that comes twice the first counts."""
    found = first_instant(datetime.fromisoformat(shown), ZoneInfo(zone))
    assert found == datetime.fromisoformat(instant).replace(tzinfo=UTC)


def test_a_window_reaches_over_the_change_of_the_clocks() -> None:
    """From 01:58 to 03:02 are four minutes where an hour is skipped, and 64 a day later."""
    rule = WrittenDeadline(
        time="03:02",
        counts_from="01:58",
        zone="Europe/Berlin",
        weekdays=_WEEK,
        dates_off=(),
        region=None,
    )
    begin = datetime(2027, 3, 28, 0, 55, tzinfo=UTC)
    (due,) = due_between(rule, begin, begin + timedelta(hours=1))
    assert due.at - due.opens_at == timedelta(minutes=4)
    (following,) = due_between(rule, begin + timedelta(hours=1), begin + timedelta(days=1, hours=1))
    assert following.at - following.opens_at == timedelta(minutes=64)


@pytest.mark.parametrize("night", NIGHTS)
def test_clocks_change_in_the_nights(night: Night) -> None:
    """In each of them the zone has another offset from one minute to the next."""
    zone = ZoneInfo(night.zone)
    before = (night.changes_at - timedelta(minutes=1)).astimezone(zone)
    assert before.utcoffset() != night.changes_at.astimezone(zone).utcoffset()


def test_every_night_and_kind_of_days_is_played() -> None:
    """Sixteen batches have every night, and deadlines of every kind in it."""
    worlds = [world(seed) for seed in range(16 * BATCH)]
    begins = {each.begins_at for each in worlds if each.deadlines}
    assert begins == {None, *(night.begins_at for night in NIGHTS)}
    days = {deadline.days for each in worlds for deadline in each.deadlines}
    assert days == set(DeadlineDays)
    regions = {deadline.region for each in worlds for deadline in each.deadlines}
    assert regions == {None, *HOLIDAYS}
