"""Suggest the known name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LIKENESS = 0.6  # 1 is equal; below, a suggestion would puzzle more than help


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` resembles most in any case, None if it resembles none."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=_LIKENESS)
    return by_lower[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean ...?"``, or nothing where no known name is near."""
    meant = suggestion(name, known)
    return f"; did you mean {meant}?" if meant else ""
