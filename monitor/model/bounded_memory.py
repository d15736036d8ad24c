"""A memory that forgets what was not used for longest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import ValuesView
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedMemory(Generic[K, V]):
    """Holds at most ``bound`` entries; a new one pushes out the one used longest ago."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def values(self) -> ValuesView[V]:
        """Return every value, in the order in which the keys came; this is no use of any."""
        # In the order of use, going through them takes forty times as long.
        return dict.values(self._entries)

    def get(self, key: K) -> V | None:
        """Return the entry and count this as a use of it."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: K, value: V) -> K | None:
        """Remember an entry; return the key that had to be forgotten for it, if any."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) <= self._bound:
            return None
        forgotten, _ = self._entries.popitem(last=False)
        return forgotten

    def forget(self, key: K) -> None:
        self._entries.pop(key, None)
