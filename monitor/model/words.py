"""Words that the page and the command line share: instants, durations, counts, kinds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

NOTHING = "\N{EN DASH}"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_KINDS = {"flow_run": "flow run", "job_group": "job group", "plan_run": "plan run"}
# Up to so many of the smaller unit, which says more than one or two of the larger.
_LEAST_UNITS = 2


def iso(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc(at: datetime | None) -> str:
    return NOTHING if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock_time(at: datetime, zone: tzinfo) -> str:
    """Return an instant as people of a time zone write it: ``Sat 28 Nov 2026 07:10 CET``."""
    return at.astimezone(zone).strftime("%a %d %b %Y %H:%M %Z")


def relative(seconds: float) -> str:
    """Return ``12 min ago`` for seconds that have passed, ``in 12 min`` for negative ones."""
    words = rough_duration(abs(seconds))
    if abs(seconds) < 1:
        return "just now"
    return f"{words} ago" if seconds >= 0 else f"in {words}"


def rough_duration(seconds: float) -> str:
    """Return a duration in its largest unit that says enough: ``45 s``, ``12 min``, ``3 h``."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= size * (_LEAST_UNITS if size > _MINUTE else 1):
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def duration(seconds: float | None) -> str:
    """Return a duration in two units: ``2 min 5 s``, ``3 h 12 min``, ``2 d 4 h``."""
    if seconds is None:
        return NOTHING
    if seconds < _MINUTE:
        return f"{seconds:.0f} s" if seconds >= 1 or seconds == 0 else "under 1 s"
    for size, unit, below, small in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if seconds >= size:
            rest = int(seconds % size // below)
            return f"{seconds // size:.0f} {unit}" + (f" {rest} {small}" if rest else "")
    raise AssertionError("unreachable: less than a minute was handled")


def counted(number: int, noun: str) -> str:
    """Return ``1 run``, ``12 runs``; what ends in ``y`` or ``s`` is written by its caller."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def listed(names: Sequence[str], *, most: int) -> str:
    """Return ``a, b and 3 more``, with at most so many names."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def percent(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{100 * ratio:.0f} %"


def kind_words(kind: str) -> str:
    return _KINDS.get(kind, kind.replace("_", " "))
