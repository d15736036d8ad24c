"""Groups of what is to be sent: what has a key in common and comes soon enough is one message.

Pure: the clock is handed in. A group is due a fixed time after its first item, so that a storm
delays nothing; what comes later begins the next group of its key.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
I = TypeVar("I")  # noqa: E741 - an item


class Grouping(Generic[K, I]):
    """The groups that wait, in the order in which they are due."""

    def __init__(self, wait_seconds: float) -> None:
        self._wait_seconds = wait_seconds
        self._groups: dict[K, tuple[float, list[I]]] = {}  # when due (monotonic), and its items

    def add(self, key: K, item: I, *, at: float) -> None:
        """Add an item to the group of its key, which it begins where there is none."""
        _, items = self._groups.setdefault(key, (at + self._wait_seconds, []))
        items.append(item)

    def due_at(self) -> float | None:
        """Return when the next group is due (monotonic); None while there is none."""
        return next((due for due, _ in self._groups.values()), None)

    def take(self, *, at: float) -> list[I]:
        """Remove and return the items of the group that is due first; none before its time."""
        due = self.due_at()
        if due is None or due > at:
            return []
        _, items = self._groups.pop(next(iter(self._groups)))
        return items

    def hasten(self) -> None:
        """Let every group be due at once."""
        self._groups = {key: (-math.inf, items) for key, (_, items) in self._groups.items()}

    def take_all(self) -> list[I]:
        """Remove and return the items of all groups."""
        items = [item for _, items in self._groups.values() for item in items]
        self._groups.clear()
        return items
