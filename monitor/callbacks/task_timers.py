"""Due times of webhook tasks: thousands of waits without a timer of the event loop for each."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

K = TypeVar("K", int, str)


class TaskTimers(Generic[K]):
    """At most one due time for each key, in monotonic seconds; the one set last counts."""

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        # Times that were moved or dropped stay here until they come to the front.
        self._queue: list[tuple[float, K]] = []

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def put(self, key: K, at: float) -> None:
        self._due[key] = at
        heapq.heappush(self._queue, (at, key))

    def drop(self, key: K) -> None:
        self._due.pop(key, None)

    def clear(self) -> None:
        self._due.clear()
        self._queue.clear()

    def keys(self) -> list[K]:
        return list(self._due)

    def next_at(self) -> float | None:
        """Return the next due time; None where no key waits."""
        while self._queue and self._due.get(self._queue[0][1]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def take(self, now: float, *, limit: int) -> list[K]:
        """Remove and return those that are due, longest due first."""
        taken: list[K] = []
        while len(taken) < limit and (at := self.next_at()) is not None and at <= now:
            key = heapq.heappop(self._queue)[1]
            del self._due[key]
            taken.append(key)
        return taken
