"""How templates write instants, durations and counts: words that an operator knows, with units.

Instants are ``<time>`` elements: the server writes UTC or "12 min ago", and the browser's script
turns them into local time and lets them tick.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

NOTHING = "\N{EN DASH}"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_STATUS_WORDS = {"flow_run": "flow run", "job_group": "job group", "plan_run": "plan run"}
# Up to so many of the smaller unit, which says more than one or two of the larger.
_PATIENCE = 2


def iso(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc(at: datetime | None) -> str:
    return NOTHING if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def instant(at: datetime | None) -> str | Markup:
    """Return an instant in full; the browser shows it in local time, with UTC on hover."""
    if at is None:
        return NOTHING
    return Markup('<time datetime="{}" title="{}" data-local>{}</time>').format(
        iso(at), utc(at), at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    )


def instant_seconds(at: datetime | None) -> str | Markup:
    """Return an instant in full, with its seconds."""
    if at is None:
        return NOTHING
    return Markup('<time datetime="{}" title="{}" data-local="seconds">{}</time>').format(
        iso(at), utc(at), utc(at)
    )


@pass_context
def ago(context: Context, at: datetime | None) -> str | Markup:
    """Return how long ago an instant was, or in how long it comes; it ticks in the browser."""
    if at is None:
        return NOTHING
    now: datetime = context["now"]
    return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(
        iso(at), utc(at), relative((now - at).total_seconds())
    )


def relative(seconds: float) -> str:
    """Return ``12 min ago`` for seconds that have passed, ``in 12 min`` for negative ones."""
    words = rough_duration(abs(seconds))
    if abs(seconds) < 1:
        return "just now"
    return f"{words} ago" if seconds >= 0 else f"in {words}"


def rough_duration(seconds: float) -> str:
    """Return a duration in its largest unit that says enough: ``45 s``, ``12 min``, ``3 h``."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= size * (_PATIENCE if size > _MINUTE else 1):
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


def percent(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{100 * ratio:.0f} %"


def kind_words(kind: str) -> str:
    return _STATUS_WORDS.get(kind, kind.replace("_", " "))


FILTERS: dict[str, Callable[..., Any]] = {
    "ago": ago,
    "instant": instant,
    "instant_seconds": instant_seconds,
    "utc": utc,
    "iso": iso,
    "duration": duration,
    "rough_duration": rough_duration,
    "counted": counted,
    "percent": percent,
    "kind_words": kind_words,
}
