"""What a trigger's times are: on ordinary days, on both nights of the clock change, in limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    OneTimeTrigger,
    ScheduleTrigger,
    UnsupportedTrigger,
)
from monitor.schedules import BadTriggerError, check, next_after, second_pass, times_between


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def stamps(trigger: ScheduleTrigger, begin: str, end: str, *, limit: int = 50) -> list[str]:
    times = times_between([trigger], utc(begin), utc(end), limit=limit)
    return [instant.strftime("%m-%dT%H:%M") for instant in times]


def cron(expression: str, timezone: str = "UTC") -> CronTrigger:
    return CronTrigger(expression=expression, timezone=timezone)


def test_hourly_follows_the_minutes_of_its_zone() -> None:
    """In a zone that is half an hour off, minute 15 is minute 45 of UTC."""
    trigger = HourlyTrigger(minute_of_hour=15, timezone="Asia/Kolkata")
    assert stamps(trigger, "2026-03-01T10:00", "2026-03-01T12:00") == ["03-01T10:45", "03-01T11:45"]


def test_daily_keeps_its_wall_time_over_the_year() -> None:
    """Nine in Berlin is eight of UTC in winter and seven in summer."""
    trigger = DailyTrigger(hour_of_day=9, minute_of_hour=0, timezone="Europe/Berlin")
    times = stamps(trigger, "2026-03-28T00:00", "2026-03-29T23:00")
    assert times == ["03-28T08:00", "03-29T07:00"]


def test_working_days_are_those_of_the_zone() -> None:
    """Saturday in Tokyo has begun while it is Friday in UTC."""
    trigger = DailyTrigger(
        hour_of_day=1, minute_of_hour=0, only_working_days=True, timezone="Asia/Tokyo"
    )
    times = stamps(trigger, "2026-11-19T00:00", "2026-11-24T00:00")
    assert times == ["11-19T16:00", "11-22T16:00", "11-23T16:00"]


def test_a_skipped_wall_time_fires_when_the_gap_ends() -> None:
    """Half past two does not exist on that night; the run is due at three, once."""
    trigger = DailyTrigger(hour_of_day=2, minute_of_hour=30, timezone="Europe/Berlin")
    times = stamps(trigger, "2026-03-28T00:00", "2026-03-31T00:00")
    assert times == ["03-28T01:30", "03-29T01:00", "03-30T00:30"]


def test_a_repeated_wall_time_fires_the_first_time_only() -> None:
    """Half past two comes twice on that night; the run is due once."""
    trigger = DailyTrigger(hour_of_day=2, minute_of_hour=30, timezone="Europe/Berlin")
    times = stamps(trigger, "2026-10-24T12:00", "2026-10-26T12:00")
    assert times == ["10-25T00:30", "10-26T01:30"]


def test_a_start_between_the_two_passes_does_not_repeat() -> None:
    """After the first pass the next daily time is tomorrow's, although the wall shows less."""
    trigger = DailyTrigger(hour_of_day=2, minute_of_hour=30, timezone="Europe/Berlin")
    assert next_after(trigger, utc("2026-10-25T01:10")) == utc("2026-10-26T01:30")


def test_every_hour_means_every_real_hour() -> None:
    """An hourly trigger fires in both passes of the repeated hour, and not in the skipped one."""
    trigger = HourlyTrigger(minute_of_hour=30, timezone="Europe/Berlin")
    autumn = stamps(trigger, "2026-10-24T23:00", "2026-10-25T03:00")
    assert autumn == ["10-24T23:30", "10-25T00:30", "10-25T01:30", "10-25T02:30"]
    spring = stamps(trigger, "2026-03-28T23:00", "2026-03-29T02:00")
    assert spring == ["03-28T23:30", "03-29T00:30", "03-29T01:30"]


def test_the_limits_of_validity_are_inside() -> None:
    """The first and the last moment of the range may fire; nothing outside does."""
    trigger = HourlyTrigger(
        minute_of_hour=0, valid_from=utc("2026-01-01T05:00"), valid_until=utc("2026-01-01T07:00")
    )
    times = stamps(trigger, "2026-01-01T00:00", "2026-01-02T00:00")
    assert times == ["01-01T05:00", "01-01T06:00", "01-01T07:00"]
    assert next_after(trigger, utc("2026-01-01T07:00")) is None


def test_an_instant_between_two_seconds_loses_none() -> None:
    """The fraction of the given instant neither repeats nor skips a second."""
    every_second = cron("* * * * * ?")
    instant = utc("2026-01-01T00:00").replace(microsecond=500_000)
    assert next_after(every_second, instant) == utc("2026-01-01T00:00:01")
    assert next_after(every_second, utc("2026-01-01T00:00:01")) == utc("2026-01-01T00:00:02")


def test_several_triggers_give_one_ascending_list() -> None:
    """Times of several triggers are merged, equal ones are one, and the limit cuts the end."""
    triggers = [cron("0 0 * * * ?"), cron("0 0/30 * * * ?")]
    times = times_between(triggers, utc("2026-01-01T00:00"), utc("2026-01-01T05:00"), limit=3)
    assert times == [utc(f"2026-01-01T{text}") for text in ("00:30", "01:00", "01:30")]


def test_adjoining_stretches_share_no_time() -> None:
    """The begin of a stretch is outside and its end inside."""
    trigger = cron("0 0 * * * ?")
    first = stamps(trigger, "2026-01-01T00:00", "2026-01-01T02:00")
    second = stamps(trigger, "2026-01-01T02:00", "2026-01-01T03:00")
    assert first + second == ["01-01T01:00", "01-01T02:00", "01-01T03:00"]


def test_an_unsupported_trigger_never_fires() -> None:
    """A kind that cannot be computed is accepted and has no times."""
    trigger = UnsupportedTrigger(kind="fileWatcher")
    check(trigger)
    assert next_after(trigger, utc("2026-01-01T00:00")) is None


@pytest.mark.parametrize("timezone", ["Mars/Olympus", "", "Europe", "../etc/passwd", "x" * 300])
def test_an_unknown_time_zone_is_named(timezone: str) -> None:
    """Whatever is wrong with a zone's name, it is the same error."""
    with pytest.raises(BadTriggerError, match="time zone"):
        check(cron("0 0 * * * ?", timezone))


@pytest.mark.parametrize(
    "trigger",
    [
        HourlyTrigger(minute_of_hour=60),
        DailyTrigger(hour_of_day=24, minute_of_hour=0),
        DailyTrigger(hour_of_day=0, minute_of_hour=-1),
    ],
)
def test_numbers_outside_the_day_are_refused(trigger: ScheduleTrigger) -> None:
    """An hour or minute that no clock shows is an error, not a trigger that never fires."""
    with pytest.raises(BadTriggerError, match="expected 0 to"):
        check(trigger)


def test_an_instant_without_a_zone_is_refused() -> None:
    """The machine's own zone must not slip in."""
    with pytest.raises(ValueError, match="time zone"):
        next_after(cron("0 0 * * * ?"), utc("2026-01-01T00:00").replace(tzinfo=None))


@pytest.mark.parametrize("timezone", ["Asia/Tokyo", "America/New_York"])
def test_the_ends_of_the_calendar_are_quiet(timezone: str) -> None:
    """The last instant has nothing after it, and the first one finds the first schedule."""
    hourly = HourlyTrigger(
        minute_of_hour=0,
        timezone=timezone,
        valid_from=datetime.min.replace(tzinfo=UTC),
        valid_until=datetime.max.replace(tzinfo=UTC),
    )
    assert next_after(hourly, datetime.max.replace(tzinfo=UTC)) is None
    assert next_after(hourly, datetime.min.replace(tzinfo=UTC)) == utc("1970-01-01T01:00")


def test_half_an_hour_that_is_repeated_has_its_times_twice() -> None:
    """On Lord Howe Island clocks go back by half an hour; hourly triggers fire in both passes."""
    trigger = HourlyTrigger(minute_of_hour=30, timezone="Australia/Lord_Howe")
    begin = utc("2026-04-04T13:00")

    times = times_between([trigger], begin, begin + timedelta(hours=4), limit=10)

    assert times == [
        utc("2026-04-04T13:30"),  # 00:30
        utc("2026-04-04T14:30"),  # 01:30
        utc("2026-04-04T15:00"),  # 01:30 again
        utc("2026-04-04T16:00"),  # 02:30
        utc("2026-04-04T17:00"),
    ]


def test_a_repeated_wall_time_may_fire_the_second_time_instead() -> None:
    """Of a trigger that follows the wall clock, and on that night only."""
    daily = DailyTrigger(hour_of_day=2, minute_of_hour=30, timezone="Europe/Berlin")
    first, second = utc("2026-10-25T00:30"), utc("2026-10-25T01:30")
    assert second_pass([daily], first) == second
    assert second_pass([daily, cron("0 0 9 * * ?")], first) == second
    for at in ("2026-10-24T00:30", "2026-10-26T01:30", "2026-03-29T01:00"):
        assert second_pass([daily], utc(at)) is None
    for strict in (
        HourlyTrigger(minute_of_hour=30, timezone="Europe/Berlin"),
        cron("0 30 0 * * ?"),
        OneTimeTrigger(at=first),
    ):
        assert second_pass([strict], first) is None
        assert second_pass([daily, strict], first) is None
    half_an_hour = cron("0 45 1 * * ?", "Australia/Lord_Howe")
    assert second_pass([half_an_hour], utc("2026-04-04T14:45")) == utc("2026-04-04T15:15")
