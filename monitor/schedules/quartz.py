"""Read a Quartz cron expression into what `cronsim` understands, and what it does not.

Quartz has seconds first and an optional year last, counts the days of the week from 1 = Sunday,
and writes ``?`` for "no condition" in one of the two day fields. Ranges may wrap around. ``L``,
``L-3``, ``15W``, ``LW``, ``6L`` and ``6#3`` are understood; ``C`` is not.
"""

from __future__ import annotations

import calendar
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date

from monitor.model.errors import PayloadError

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_LONGEST_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SATURDAY = 5  # as `date.weekday` counts
_NTH_MAXIMUM = 5
_EXPRESSION_CHARACTERS = 1_000


class BadTriggerError(PayloadError, ValueError):
    """A trigger that no instant can be computed from; the message names the part and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """The numbers and names that one field takes. Names count up from ``lowest``."""

    name: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()

    def bad(self, text: str, why: str) -> BadTriggerError:
        return BadTriggerError(f"cron {self.name} {text!r}: {why}")

    def number(self, text: str) -> int:
        if text in self.names:
            return self.lowest + self.names.index(text)
        if not (text.isascii() and text.isdecimal()) or len(text) > len(str(self.highest)):
            raise self.bad(text, f"expected {self.lowest} to {self.highest}")
        if not self.lowest <= int(text) <= self.highest:
            raise self.bad(text, f"expected {self.lowest} to {self.highest}")
        return int(text)

    def numbers(self, text: str) -> set[int]:
        """Return what a list such as ``1,5-8,0/15`` means."""
        return {number for term in text.split(",") for number in self._term(term)}

    def _term(self, term: str) -> Iterator[int]:
        body, slash, step_text = term.partition("/")
        step = 1
        if slash:
            span = self.highest - self.lowest + 1
            if not (step_text.isascii() and step_text.isdecimal()) or len(step_text) > len("9999"):
                raise self.bad(term, "the step is not a number")
            step = int(step_text)
            if not 1 <= step <= span:
                raise self.bad(term, f"expected a step of 1 to {span}")
        first, dash, last = body.partition("-")
        if body in ("*", "") and (slash or body):
            start, end = self.lowest, self.highest
        else:
            start = self.number(first)
            end = self.number(last) if dash else (self.highest if slash else start)
        if end < start:  # FRI-MON, 22-2
            end += self.highest - self.lowest + 1
        size = self.highest - self.lowest + 1
        return (
            self.lowest + (number - self.lowest) % size for number in range(start, end + 1, step)
        )


_SECOND = _Field(name="second", lowest=0, highest=59)
_MINUTE = _Field(name="minute", lowest=0, highest=59)
_HOUR = _Field(name="hour", lowest=0, highest=23)
_DAY_OF_MONTH = _Field(name="day-of-month", lowest=1, highest=31)
_MONTH = _Field(name="month", lowest=1, highest=12, names=_MONTHS)
_DAY_OF_WEEK = _Field(name="day-of-week", lowest=1, highest=7, names=_DAYS)
_YEAR = _Field(name="year", lowest=1970, highest=2099)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRule:
    """A day of the month that cronsim cannot express: ``15W`` or ``L-3``, or ``L-3W``."""

    day: int | None = None  # the day itself, or
    before_last: int = 0  # so many days before the last of the month
    is_weekday: bool = False  # moved to the nearest weekday of the same month

    def matches(self, day: date) -> bool:
        return self._day_in(day.year, day.month) == day.day

    def candidates(self) -> set[int]:
        """Return every day of the month that this can ever be."""
        if self.day is None:
            near = set(range(28 - self.before_last, 32 - self.before_last))
        else:
            near = {self.day}
        if self.is_weekday:
            near = {number + shift for number in near for shift in range(-2, 3)}
        return {number for number in near if 1 <= number <= _DAY_OF_MONTH.highest}

    def _day_in(self, year: int, month: int) -> int | None:
        last = calendar.monthrange(year, month)[1]
        day = last - self.before_last if self.day is None else self.day
        if not 1 <= day <= last:
            return None
        weekday = date(year, month, day).weekday()
        if not self.is_weekday or weekday < _SATURDAY:
            return day
        if weekday == _SATURDAY:  # Saturday: Friday, unless that is last month's
            return day - 1 if day > 1 else day + 2
        return day + 1 if day < last else day - 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Quartz:
    """An expression that was understood.

    ``fields`` are cronsim's six. Where ``never`` is true no day of any month fits. With
    ``is_working_days_only`` a time that fits on a Saturday or Sunday does not count.
    """

    fields: str
    is_every_hour: bool
    years: frozenset[int] | None
    day_rule: DayRule | None = None
    never: bool = False
    is_working_days_only: bool = False

    def takes(self, day: date) -> bool:
        """False for a day that cronsim yields although it does not fit."""
        if self.is_working_days_only and day.weekday() >= _SATURDAY:
            return False
        return self.day_rule is None or self.day_rule.matches(day)


NEVER = Quartz(fields="", is_every_hour=False, years=None, never=True)


def on_working_days(spec: Quartz) -> Quartz:
    """Return the same without Saturdays and Sundays, which an expression cannot express."""
    return replace(spec, is_working_days_only=True)


@functools.lru_cache(maxsize=4_096)
def parse(expression: str) -> Quartz:
    """Read an expression of six fields, or seven with a year.

    Raises:
        BadTriggerError: it is not Quartz; the message names the field.
    """
    if len(expression) > _EXPRESSION_CHARACTERS:
        raise BadTriggerError(f"cron expression is longer than {_EXPRESSION_CHARACTERS} characters")
    parts = expression.upper().split()
    if len(parts) not in (6, 7):
        raise BadTriggerError(
            f"cron expression {expression!r} has {len(parts)} fields; expected second, minute, "
            "hour, day-of-month, month, day-of-week and perhaps a year"
        )
    second, minute, hour, day, month, weekday = parts[:6]
    hours = _HOUR.numbers(hour)
    months = _MONTH.numbers(month)
    days, day_rule = _days(day)
    _refuse_two_conditions(expression, day, weekday)
    fields = (
        _listed(_SECOND.numbers(second)),
        _listed(_MINUTE.numbers(minute)),
        _listed(hours),
        days,
        _listed(months),
        _weekdays(weekday),
    )
    return Quartz(
        fields=" ".join(fields),
        is_every_hour=len(hours) == _HOUR.highest + 1,
        years=_years(parts[6]) if len(parts) > len(fields) else None,
        day_rule=day_rule,
        never=_is_outside_every_month(days, months),
    )


def _refuse_two_conditions(expression: str, day: str, weekday: str) -> None:
    if day == weekday == "?":
        raise BadTriggerError(f"cron expression {expression!r}: only one of the days may be '?'")
    if day not in ("?", "*") and weekday not in ("?", "*"):
        raise BadTriggerError(
            f"cron expression {expression!r}: one of day-of-month and day-of-week must be '?'"
        )


def _listed(numbers: set[int]) -> str:
    return ",".join(str(number) for number in sorted(numbers))


def _years(text: str) -> frozenset[int] | None:
    return None if text == "*" else frozenset(_YEAR.numbers(text))


def _days(text: str) -> tuple[str, DayRule | None]:
    """Return cronsim's field, and the rule that picks from it where it is too wide."""
    if text in ("?", "*"):
        return "*", None
    if text in ("L", "LW"):
        return text, None
    rule = _day_rule(text)
    if rule is not None:
        return _listed(rule.candidates()), rule
    return _listed(_DAY_OF_MONTH.numbers(text)), None


def _day_rule(text: str) -> DayRule | None:
    body = text.removesuffix("W")
    is_weekday = body != text
    if body.startswith("L-"):
        offset = body.removeprefix("L-")
        if not (offset.isascii() and offset.isdecimal() and len(offset) <= len("30")):
            raise _DAY_OF_MONTH.bad(text, "expected L-0 to L-30")
        if int(offset) >= _DAY_OF_MONTH.highest:
            raise _DAY_OF_MONTH.bad(text, "expected L-0 to L-30")
        return DayRule(before_last=int(offset), is_weekday=is_weekday)
    if is_weekday:
        return DayRule(day=_DAY_OF_MONTH.number(body), is_weekday=True)
    return None


def _weekdays(text: str) -> str:
    """Translate the days of the week from 1 = Sunday to cronsim's 0 = Sunday."""
    if text in ("?", "*"):
        return "*"
    return ",".join(_weekday_term(term) for term in text.split(","))


def _weekday_term(term: str) -> str:
    if term == "L":  # alone it means Saturday, the last day of Quartz's week
        return "6"
    if "#" in term:
        name, _, nth = term.partition("#")
        if not (len(nth) == 1 and nth in "12345"):
            raise _DAY_OF_WEEK.bad(term, f"expected #1 to #{_NTH_MAXIMUM}")
        return f"{_DAY_OF_WEEK.number(name) - 1}#{nth}"
    if term.endswith("L"):
        return f"{_DAY_OF_WEEK.number(term[:-1]) - 1}L"
    return _listed({number - 1 for number in _DAY_OF_WEEK.numbers(term)})


def _is_outside_every_month(days: str, months: set[int]) -> bool:
    # cronsim refuses such an expression; to Quartz it is one that never fires.
    if not days[0].isdecimal():
        return False
    earliest = int(days.partition(",")[0])
    return earliest > max(_LONGEST_MONTH[month - 1] for month in months)
