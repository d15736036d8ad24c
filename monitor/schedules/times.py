"""From a trigger to the instants at which it fires.

What a workspace does on the two nights when clocks change is not published. Assumed, here and
nowhere else: a trigger that fires in every hour of the day follows real hours, so a repeated hour
has its times twice and a skipped one never. Any other follows the wall clock, once each: a wall
time that is skipped fires when the gap ends, and one that comes twice fires the first time, or the
second time (`second_pass`) and not the first.

Each kind of trigger that repeats becomes the Quartz expression that means the same. Not published,
and assumed here: a day that a month does not have (the 31st, a fifth Monday) is left out in that
month and not made up for, and ``onlyWorkingDays`` takes Saturdays and Sundays out of whatever days
a trigger names, without moving them. Holidays are unknown to a workspace.
"""

from __future__ import annotations

import copy
import functools
import heapq
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time, timedelta, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim

from monitor.model.days_off import NO_DAYS_OFF, DaysOff
from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    MonthlyTrigger,
    MonthlyWeekdayTrigger,
    OneTimeTrigger,
    RangedTrigger,
    ScheduleTrigger,
    UnsupportedTrigger,
    Weekday,
    WeeklyTrigger,
)
from monitor.schedules.quartz import NEVER, BadTriggerError, Quartz, on_working_days, parse

Rhythm = (
    CronTrigger
    | HourlyTrigger
    | DailyTrigger
    | WeeklyTrigger
    | MonthlyTrigger
    | MonthlyWeekdayTrigger
)

_LAST_HOUR = 23
_LAST_MINUTE = 59
_LONGEST_MONTH_DAYS = 31
_MOST_WEEKS_OF_A_MONTH = 5
_WEEKEND = frozenset({Weekday.SATURDAY, Weekday.SUNDAY})
_QUARTZ_DAYS = {day: day[:3] for day in Weekday}  # MONDAY is MON
# No schedule is older or reaches farther; between these no date arithmetic leaves its range.
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(2150, 1, 1, tzinfo=UTC)
_STRETCH = timedelta(days=1)  # of one offset; offsets change less often


def quartz_of(trigger: Rhythm) -> Quartz:
    """Return the expression that fires when the trigger does, its limits left aside.

    Raises:
        BadTriggerError: a field or the expression is wrong.
    """
    match trigger:
        case CronTrigger(expression=expression):
            return parse(expression)
        case HourlyTrigger(minute_of_hour=minute):
            _require("minuteOfHour", minute, lowest=0, highest=_LAST_MINUTE)
            return parse(f"0 {minute} * * * ?")
        case DailyTrigger(only_working_days=working):
            return parse(f"{_time(trigger)} {'? * MON-FRI' if working else '* * ?'}")
        case WeeklyTrigger():
            return _weekly(trigger)
        case MonthlyTrigger():
            return _monthly(trigger)
        case MonthlyWeekdayTrigger():
            return _monthly_weekday(trigger)


def _weekly(trigger: WeeklyTrigger) -> Quartz:
    time = _time(trigger)
    if not trigger.days_of_week:
        raise BadTriggerError("daysOfWeek names no day")
    days = set(trigger.days_of_week)
    if trigger.only_working_days:
        days -= _WEEKEND
    if not days:
        return NEVER
    return parse(f"{time} ? * {','.join(sorted(_QUARTZ_DAYS[day] for day in days))}")


def _monthly(trigger: MonthlyTrigger) -> Quartz:
    time = _time(trigger)
    if not trigger.days_of_month:
        raise BadTriggerError("daysOfMonth names no day")
    for day in trigger.days_of_month:
        _require("daysOfMonth", day, lowest=1, highest=_LONGEST_MONTH_DAYS)
    days = ",".join(str(day) for day in sorted(set(trigger.days_of_month)))
    spec = parse(f"{time} {days} * ?")
    return on_working_days(spec) if trigger.only_working_days else spec


def _monthly_weekday(trigger: MonthlyWeekdayTrigger) -> Quartz:
    time, nth = _time(trigger), trigger.nth_week_day_of_month
    _require("nthWeekDayOfMonth", nth, lowest=1, highest=_MOST_WEEKS_OF_A_MONTH)
    if trigger.only_working_days and trigger.day_of_week in _WEEKEND:
        return NEVER
    return parse(f"{time} ? * {_QUARTZ_DAYS[trigger.day_of_week]}#{nth}")


def _time(
    trigger: DailyTrigger | WeeklyTrigger | MonthlyTrigger | MonthlyWeekdayTrigger,
) -> str:
    """Return second, minute and hour of the expression."""
    _require("hourOfDay", trigger.hour_of_day, lowest=0, highest=_LAST_HOUR)
    _require("minuteOfHour", trigger.minute_of_hour, lowest=0, highest=_LAST_MINUTE)
    return f"0 {trigger.minute_of_hour} {trigger.hour_of_day}"


def _require(name: str, value: int, *, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise BadTriggerError(f"{name} {value}: expected {lowest} to {highest}")


def check(trigger: ScheduleTrigger) -> None:
    """Accept a trigger that times can be computed from, whether or not it ever fires.

    Raises:
        BadTriggerError: a field, the expression or the time zone is wrong.
    """
    _zone(trigger.timezone)
    if not isinstance(trigger, OneTimeTrigger | UnsupportedTrigger):
        quartz_of(trigger)


def next_after(
    trigger: ScheduleTrigger, instant: datetime, *, days_off: DaysOff = NO_DAYS_OFF
) -> datetime | None:
    """Return the first time strictly after ``instant``, aware UTC; None if it never fires again.

    ``instant`` is aware. A trigger of an unsupported kind never fires. ``days_off`` are days by the
    trigger's zone whose times are left out.

    Raises:
        BadTriggerError: see `check`.
    """
    return next(_times_on_other_days(trigger, instant, days_off), None)


def times_between(
    triggers: Iterable[ScheduleTrigger],
    begin: datetime,
    end: datetime,
    *,
    limit: int,
    days_off: DaysOff = NO_DAYS_OFF,
) -> list[datetime]:
    """Return when any of the triggers fires, after ``begin`` and not after ``end``.

    Ascending, each time once, at most the first ``limit``. Adjoining stretches share no time.
    ``days_off`` as for `next_after`.

    Raises:
        BadTriggerError: see `check`.
    """
    merged = heapq.merge(*(_times_on_other_days(trigger, begin, days_off) for trigger in triggers))
    times: Iterator[datetime] = _each_once(merged)
    return list(islice(_until(times, end), limit))


def second_pass(triggers: Iterable[ScheduleTrigger], at: datetime) -> datetime | None:
    """Return when what fires at ``at`` may fire instead, as that wall time comes again.

    None where it comes once, or where one of the triggers fires at ``at`` whatever a clock shows.
    """
    triggers = list(triggers)
    passes = {trigger: again for trigger in triggers if (again := _wall_time_again(trigger, at))}
    if not passes:
        return None
    firing = [trigger for trigger in triggers if _fires_at(trigger, at)]
    if any(trigger not in passes for trigger in firing):
        return None
    return max((passes[trigger] for trigger in firing), default=None)


def _wall_time_again(trigger: ScheduleTrigger, at: datetime) -> datetime | None:
    if isinstance(trigger, OneTimeTrigger | UnsupportedTrigger) or quartz_of(trigger).is_every_hour:
        return None
    again = at.astimezone(_zone(trigger.timezone)).replace(fold=1).astimezone(UTC)
    return again if again > at else None


def _fires_at(trigger: ScheduleTrigger, at: datetime) -> bool:
    return next_after(trigger, at - timedelta.resolution) == at


def _times_on_other_days(
    trigger: ScheduleTrigger, instant: datetime, days_off: DaysOff
) -> Iterator[datetime]:
    times = _times_after(trigger, instant)
    if days_off == NO_DAYS_OFF:
        return times
    zone = _zone(trigger.timezone)
    return (at for at in times if not days_off.has(at.astimezone(zone).date()))


def _times_after(trigger: ScheduleTrigger, instant: datetime) -> Iterator[datetime]:
    """Return an endless or ending stream of times; checks before it yields the first one."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    zone = _zone(trigger.timezone)
    after, until = max(instant.astimezone(UTC), _EARLIEST), _LATEST
    if isinstance(trigger, UnsupportedTrigger):
        return iter(())
    if isinstance(trigger, OneTimeTrigger):
        return iter((trigger.at,) if after < trigger.at <= until else ())
    spec = quartz_of(trigger)
    if isinstance(trigger, RangedTrigger):
        if trigger.valid_from is not None and trigger.valid_from > after:
            after = trigger.valid_from - timedelta.resolution
        until = min(until, trigger.valid_until or until)
    if after >= until or spec.never:
        return iter(())
    times = _real_times if spec.is_every_hour else _wall_clock_times
    return _until(times(spec, zone, after), until)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise BadTriggerError(f"time zone {name!r} is not known") from exc


def _real_times(spec: Quartz, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """Give every real instant whose wall time fits.

    The search knows no zones, so it covers a stretch of one offset after another: a search in the
    zone itself would miss the second pass of half an hour that is repeated (Lord Howe Island).
    """
    at = after
    while True:
        offset = _offset(zone, at + timedelta.resolution)
        turn = _turn_after(zone, at, offset)
        end = turn or at + _STRETCH
        for wall in _matches(spec, at.replace(tzinfo=None) + offset):
            instant = (wall - offset).replace(tzinfo=UTC)
            if instant >= end:
                # Nothing fits before that wall time; a day less, for the offset may change first.
                at = max(end, instant_of(wall, zone) - _STRETCH) if turn is None else turn
                break
            if instant > at:
                yield instant
        else:
            return
        at -= timedelta.resolution  # what fits at the very beginning belongs to the stretch


def _turn_after(zone: tzinfo, at: datetime, offset: timedelta) -> datetime | None:
    """Return when the offset changes, None where it does not in the coming stretch."""
    low, high = at, at + _STRETCH
    if _offset(zone, high) == offset:
        return None
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        low, high = (middle, high) if _offset(zone, middle) == offset else (low, middle)
    return high.replace(microsecond=0)


def _offset(zone: tzinfo, instant: datetime) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()


def _wall_clock_times(spec: Quartz, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """Give every wall time that fits, once, as the instant at which it counts."""
    latest = after
    for wall in _matches(spec, after.astimezone(zone).replace(tzinfo=None)):
        instant = instant_of(wall, zone)
        # Earlier: the first pass of an hour that is being repeated. Equal: another of a gap.
        if instant > latest:
            latest = instant
            yield instant


def instant_of(wall: datetime, zone: tzinfo) -> datetime:
    """Return the instant at which a wall time without a zone counts, aware UTC.

    The first one where it comes twice, the end of the gap where it is skipped.
    """
    instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return instant
    skipped = wall.replace(second=0)
    while instant.astimezone(zone).replace(tzinfo=None, fold=0) != skipped:
        skipped += timedelta(minutes=1)
        instant = skipped.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return instant


def _matches(spec: Quartz, after: datetime) -> Iterator[datetime]:
    """Let cronsim search from ``after``; pass over what its fields cannot exclude."""
    search = _search(spec.fields, after)
    while (wall := next(search, None)) is not None and wall.year <= _LATEST.year:
        if spec.years is not None and wall.year not in spec.years:
            coming = [year for year in spec.years if year > wall.year]
            if not coming:
                return
            search = _search_from(spec, wall.replace(year=min(coming), month=1, day=1))
        elif not spec.takes(wall.date()):
            search = _search_from(spec, wall + timedelta(days=1))
        else:
            yield wall


def _search_from(spec: Quartz, day: datetime) -> CronSim:
    midnight = datetime.combine(day.date(), time(), tzinfo=day.tzinfo)
    return _search(spec.fields, midnight - timedelta(seconds=1))


def _search(fields: str, after: datetime) -> CronSim:
    search = copy.copy(_parsed(fields))
    search.dt = after.replace(microsecond=0)
    return search


@functools.lru_cache(maxsize=4_096)
def _parsed(fields: str) -> CronSim:
    # Reading the fields takes longer than the search itself, and comes out the same each time.
    return CronSim(fields, _EARLIEST)


def _each_once(times: Iterable[datetime]) -> Iterator[datetime]:
    latest: datetime | None = None
    for instant in times:
        if instant != latest:
            latest = instant
            yield instant


def _until(times: Iterable[datetime], end: datetime) -> Iterator[datetime]:
    for instant in times:
        if instant > end:
            return
        yield instant
