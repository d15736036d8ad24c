"""How long the quick polls rest, so that the budget also reads what they find. Pure.

They are the first in the order of spending: without a rest of their own, a small budget would go
to them alone, and no run's end and no job records would ever be read.
"""

from __future__ import annotations

_QUICK_SHARE = 0.75  # of the budget; the rest is for all that comes behind in the order


def rest_between_lists(requests_per_minute: float, *, lists: int) -> float:
    """Return the least seconds between two looks, where so many lists are looked at side by side.

    A look that finds nothing new costs one request.
    """
    return lists * 60.0 / (requests_per_minute * _QUICK_SHARE)


def rest_after_reads(requests_per_minute: float, *, reads: int) -> float:
    """Return the least seconds behind a round of so many reads, which take the whole budget."""
    return reads * 60.0 / requests_per_minute * (1 - _QUICK_SHARE) / _QUICK_SHARE
