"""Suggest the known name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LIKENESS = 0.6  # 1 is equal; below, a suggestion would puzzle more than help


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` resembles most in any case, None if it resembles none."""
    return next(iter(_suggestions(name, known, most=1)), None)


def did_you_mean(name: str, known: Iterable[str], *, most: int = 1) -> str:
    """Return ``"; did you mean ...?"`` with at most ``most`` names, or nothing if none is near."""
    meant = " or ".join(_suggestions(name, known, most=most))
    return f"; did you mean {meant}?" if meant else ""


def _suggestions(name: str, known: Iterable[str], *, most: int) -> list[str]:
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=most, cutoff=_LIKENESS)
    return [by_lower[candidate] for candidate in close]
