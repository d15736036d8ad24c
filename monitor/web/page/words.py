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


def instant(at: datetime | None) -> str | Markup:
    """Return an instant in full; the browser shows it in local time, with UTC on hover."""
    if at is None:
        return NOTHING
    return Markup('<time datetime="{}" title="{}" data-local>{}</time>').format(
        iso(at), utc(at), at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
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


FILTERS: dict[str, Callable[..., Any]] = {
    "ago": ago,
    "instant": instant,
    "utc": utc,
    "iso": iso,
    "duration": duration,
    "rough_duration": rough_duration,
    "counted": counted,
    "percent": percent,
    "kind_words": kind_words,
}
