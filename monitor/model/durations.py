"""Durations in words, for people: two units, and a space before each."""

from __future__ import annotations

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_UNITS = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s"))


def duration_words(seconds: float) -> str:
    """Return a duration in two units: ``2 min 5 s``, ``3 h 12 min``, ``2 d 4 h``."""
    for size, unit, below, small in _UNITS:
        if seconds >= size:
            rest = int(seconds % size // below)
            return f"{seconds // size:.0f} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{seconds:.0f} s" if seconds >= 1 or seconds == 0 else "under 1 s"
