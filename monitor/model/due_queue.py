"""A queue of what is due later: bounded, retried with growing waits, and waited for by one task."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from monitor.model.clock import Clock
from monitor.model.waits import WakeSignal, backoff_seconds

K = TypeVar("K")
V = TypeVar("V")

NEVER = float("inf")
_LEAST_ROOM = 64  # places of the heap, before those that keys have left are dropped


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    due_at: float = NEVER  # monotonic
    place: int = 0  # of the heap, the only one that counts
    attempts: int = 0


class DueQueue(Generic[K, V]):
    """Keys with a value each, handed out when they are due: the longest due first.

    A key stays until it is removed: what a cancelled task has not finished is due again. ``wake``
    is set whenever a key may be due earlier than `seconds_until_due` has said.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        bound: int | None,
        base_seconds: float = 0.0,
        cap_seconds: float = 0.0,
    ) -> None:
        """Waits grow from ``base_seconds`` to ``cap_seconds``; None: the caller bounds the keys."""
        self._clock = clock
        self._bound = bound
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self.wake = WakeSignal(clock)
        self._entries: dict[K, _Entry[V]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._places = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def has_room(self, keys: int = 1) -> bool:
        """True where it can hold so many keys more."""
        return self._bound is None or len(self._entries) + keys <= self._bound

    def values(self) -> list[V]:
        """Return the values in the order in which their keys came."""
        return [entry.value for entry in self._entries.values()]

    def __getitem__(self, key: K) -> V:
        return self._entries[key].value

    def get(self, key: K) -> V | None:
        return self._entries[key].value if key in self._entries else None

    def put(
        self,
        key: K,
        value: V,
        *,
        after_seconds: float = 0.0,
        attempts: int = 0,
        is_durable: bool = False,
    ) -> bool:
        """Add a key, due after so long and ``attempts``; False where the queue is full.

        One that is there takes the value and stays due when it was. What ``is_durable`` already is
        taken in any case: others may have come since its caller has asked for room.
        """
        entry = self._entries.get(key)
        if entry is not None:
            entry.value = value
            return True
        if not (is_durable or self.has_room()):
            return False
        self._entries[key] = _Entry(value, attempts=attempts)
        self.schedule(key, after_seconds=after_seconds)
        return True

    def remove(self, key: K) -> V | None:
        """Remove a key and return its value; None where it is not there."""
        entry = self._entries.pop(key, None)
        return None if entry is None else entry.value

    def clear(self) -> None:
        self._entries.clear()
        self._heap.clear()

    def schedule(self, key: K, *, after_seconds: float = 0.0) -> None:
        """Let the key be due after so long, which is no attempt; `NEVER` pauses it."""
        entry = self._entries[key]
        self._places += 1
        entry.due_at, entry.place = self._clock.monotonic() + after_seconds, self._places
        if entry.due_at == NEVER:
            return
        heapq.heappush(self._heap, (entry.due_at, entry.place, key))
        if len(self._heap) > max(_LEAST_ROOM, 2 * len(self._entries)):
            self._heap = [place for place in self._heap if self._counts(place)]
            heapq.heapify(self._heap)
        self.wake.set()

    def retry(self, key: K, *, within_seconds: float = NEVER) -> None:
        """Count an attempt, and let the key be due after a wait that doubles with each of them."""
        entry = self._entries[key]
        entry.attempts += 1
        wait = backoff_seconds(
            entry.attempts, base_seconds=self._base_seconds, cap_seconds=self._cap_seconds
        )
        self.schedule(key, after_seconds=min(wait, within_seconds))

    def forgive(self, key: K) -> None:
        """Let the attempts so far count no more."""
        self._entries[key].attempts = 0

    def due_at(self, key: K) -> float:
        """Return when a key is due (monotonic); `NEVER` where it is paused, or not there."""
        return self._entries[key].due_at if key in self._entries else NEVER

    def due(self, most: int | None = None) -> list[K]:
        """Return the keys that are due now, the longest due first. They stay in the queue."""
        places: list[tuple[float, int, K]] = []
        while len(places) != most and self.seconds_until_due() == 0.0:
            places.append(heapq.heappop(self._heap))
        for place in places:
            heapq.heappush(self._heap, place)
        return [key for _, _, key in places]

    def seconds_until_due(self) -> float | None:
        """Return when `due` has a key to return; None where none is due at any time."""
        while self._heap and not self._counts(self._heap[0]):
            heapq.heappop(self._heap)
        return max(0.0, self._heap[0][0] - self._clock.monotonic()) if self._heap else None

    def _counts(self, place: tuple[float, int, K]) -> bool:
        """False where the key has left this place."""
        entry = self._entries.get(place[2])
        return entry is not None and entry.place == place[1]
