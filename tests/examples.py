"""How many examples a costly property draws; others draw as many as the profile says."""

from __future__ import annotations

from hypothesis import settings

_MORE = 20


def examples(count: int) -> int:
    """Return ``count``, or many times as many under the profile ``soak``."""
    return count * _MORE if settings.get_current_profile_name() == "soak" else count
