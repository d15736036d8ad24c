"""The name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def meant(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean ...?"``, or nothing where no known name is near."""
    by_lower = {text.lower(): text for text in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""
