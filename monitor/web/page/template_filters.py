"""Filters of the templates: instants, durations and counts in words with units.

Instants are ``<time>`` elements: the server writes UTC or "12 min ago", and the browser's script
turns them into local time and lets them tick.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from monitor.model.words import (
    NOTHING,
    counted,
    duration,
    iso,
    kind_words,
    percent,
    relative,
    rough_duration,
    utc,
)

_THOUSAND = 1_000


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


def sentence(text: str) -> str:
    """Return a problem as a sentence; one that begins with the name of a key keeps that."""
    begins_with_key = re.match(r"[\w.]+:", text)
    text = text if begins_with_key else text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


def clock(at: datetime, zone: str) -> str:
    """Return the time of day in a time zone: ``06:30``."""
    return at.astimezone(ZoneInfo(zone)).strftime("%H:%M")


def size(number: int) -> str:
    """Return a number of bytes in the unit that says enough: ``12.3 MB``."""
    amount = float(number)
    for unit in ("bytes", "kB", "MB"):
        if amount < _THOUSAND:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= _THOUSAND
    return f"{amount:.1f} GB"


def path_part(text: str) -> str:
    """Return a text as one part of a path, whatever it holds."""
    return quote(text, safe="")


FILTERS: dict[str, Callable[..., Any]] = {
    "ago": ago,
    "instant": instant,
    "instant_seconds": instant_seconds,
    "utc": utc,
    "iso": iso,
    "duration": duration,
    "rough_duration": rough_duration,
    "counted": counted,
    "clock": clock,
    "size": size,
    "percent": percent,
    "sentence": sentence,
    "path_part": path_part,
    "kind_words": kind_words,
}
