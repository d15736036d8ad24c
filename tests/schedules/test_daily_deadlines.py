"""Deadlines by the wall clock: over both nights on which clocks change, and over holidays."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.days_off import DaysOff, parse_region, public_holidays
from monitor.model.errors import ConfigurationError
from monitor.schedules.daily_deadlines import DailyDeadline

BERLIN = ZoneInfo("Europe/Berlin")
EVERY_DAY = frozenset(range(7))
GAP, REPEATED = date(2026, 3, 29), date(2026, 10, 25)
minutes = st.integers(0, 24 * 60 - 1)
around_changes = st.sampled_from([GAP, REPEATED]).flatmap(
    lambda day: st.integers(-3 * 1_440, 3 * 1_440).map(
        lambda minute: datetime.combine(day, time(), tzinfo=UTC) + timedelta(minutes=minute)
    )
)


def daily(minute: int, opens: int = 0, *, days_off: DaysOff | None = None) -> DailyDeadline:
    return DailyDeadline(
        minute=minute, opens=opens, zone=BERLIN, days=EVERY_DAY, days_off=days_off or DaysOff()
    )


@given(minute=minutes, opens=minutes, instant=around_changes)
def test_each_day_has_one_deadline_and_windows_share_nothing(
    minute: int, opens: int, instant: datetime
) -> None:
    """Over both nights: the next day's follows, and its window opens after this deadline."""
    deadlines = daily(minute, opens)
    first = deadlines.after(instant)
    assert first is not None
    assert first.at > instant
    second = deadlines.after(first.at)
    assert second is not None
    assert second.day == first.day + timedelta(days=1)
    assert timedelta(hours=22) <= second.at - first.at <= timedelta(hours=26)
    assert first.at <= second.opens_at <= second.at
    assert deadlines.after(first.at - timedelta.resolution) == first


@given(minute=minutes)
def test_only_the_night_that_skips_an_hour_skips_times(minute: int) -> None:
    """What is skipped is due when the gap ends; what comes twice is due the first time."""
    deadlines = daily(minute, opens=0)
    skipped = {day for day, _ in deadlines.skipped_on(date(2026, 1, 1), days=365)}
    assert skipped == ({GAP} if 120 <= minute < 180 else set())
    for day in (GAP, REPEATED):
        found = deadlines.after(datetime.combine(day, time(), tzinfo=BERLIN).astimezone(UTC))
        if minute == 0:
            continue  # that one is at the instant itself
        assert found is not None
        assert found.day == day
        wall = found.at.astimezone(BERLIN)
        shown = wall.hour * 60 + wall.minute
        assert shown == (180 if day in skipped else minute)
        assert wall.fold == 0


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-28", "2026-03-28T06:00:00+00:00"),
        ("2026-03-29", "2026-03-29T05:00:00+00:00"),
        ("2026-10-24", "2026-10-24T05:00:00+00:00"),
        ("2026-10-25", "2026-10-25T06:00:00+00:00"),
    ],
)
def test_seven_in_the_morning_follows_the_wall_clock(text: str, instant: str) -> None:
    """On the days before and of both changes."""
    begin = datetime.combine(date.fromisoformat(text), time(), tzinfo=BERLIN)
    found = daily(7 * 60).after(begin.astimezone(UTC))
    assert found is not None
    assert found.at.isoformat() == instant
    assert found.opens_at == begin.astimezone(UTC)


@given(instant=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_no_deadline_is_on_a_holiday(instant: datetime) -> None:
    """Nor on a date of one's own; every other day from then on has one."""
    own = (instant + timedelta(days=2)).date().isoformat()
    deadlines = daily(420, days_off=DaysOff(region="DE-BE", dates=(own,)))
    found = deadlines.after(instant)
    assert found is not None
    assert found.day not in public_holidays("DE-BE", found.day.year)
    assert found.day.isoformat() != own
    between = found.day - instant.astimezone(BERLIN).date()
    assert between <= timedelta(days=5)


def test_a_subdivision_has_holidays_of_its_own() -> None:
    """Berlin's Women's Day is none of Bavaria, whose Epiphany is none of Berlin."""
    assert date(2026, 3, 8) in public_holidays("DE-BE", 2026)
    assert date(2026, 3, 8) not in public_holidays("DE-BY", 2026)
    assert date(2026, 1, 6) in public_holidays("DE-BY", 2026)
    assert date(2026, 1, 6) not in public_holidays("DE", 2026)


def test_a_region_that_is_written_otherwise_is_meant() -> None:
    """Names and codes of three letters lead to those of two."""
    for text, meant in (("Germany", "DE"), ("de", "DE"), ("DE-Berlin", "BE"), ("DE-be", "BE")):
        with pytest.raises(ConfigurationError, match=f"did you mean {meant}"):
            parse_region(text)


def test_where_every_day_is_off_there_is_no_deadline() -> None:
    """The search ends."""
    dates = tuple((GAP + timedelta(days=day)).isoformat() for day in range(-10, 1_000))
    found = daily(420, days_off=DaysOff(dates=dates)).after(
        datetime.combine(GAP, time(), tzinfo=UTC)
    )
    assert found is None
