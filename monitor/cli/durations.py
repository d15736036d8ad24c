"""Lengths of time as people type them: ``90s``, ``30m``, ``2h``, ``7d``, ``1h30m``."""

from __future__ import annotations

import re

from monitor.model.errors import ConfigurationError

_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_FORM = re.compile(r"(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?")


def seconds(option: str, text: str) -> float:
    """Return how many seconds an option names.

    Raises:
        ConfigurationError: it is no length of time, or none that is above zero.
    """
    total = in_seconds(text)
    if total is None:
        hint = "is no length of time; write one as 90s, 30m, 2h, 7d or 1h30m"
        raise ConfigurationError(f"{option}: {text[:40]!r} {hint}")
    return total


def in_seconds(text: str) -> float | None:
    """Return a length of time, None where it is none that is above zero."""
    match = _FORM.fullmatch(text.strip())
    parts = match.groups() if match is not None else ()
    total = sum(
        int(part) * unit for part, unit in zip(parts, _SECONDS.values(), strict=False) if part
    )
    return float(total) if total > 0 else None
