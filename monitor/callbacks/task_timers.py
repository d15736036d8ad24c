"""Whose turn comes when: thousands of waits without a timer for each."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

K = TypeVar("K", int, str)


class TaskTimers(Generic[K]):
    """At most one turn for each key, by monotonic seconds; the turn set last is the one."""

    def __init__(self) -> None:
        self._turns: dict[K, float] = {}
        # Turns that were moved or dropped stay here until they come to the front.
        self._queue: list[tuple[float, K]] = []

    def __contains__(self, key: K) -> bool:
        return key in self._turns

    def put(self, key: K, at: float) -> None:
        self._turns[key] = at
        heapq.heappush(self._queue, (at, key))

    def drop(self, key: K) -> None:
        self._turns.pop(key, None)

    def clear(self) -> None:
        self._turns.clear()
        self._queue.clear()

    def keys(self) -> list[K]:
        return list(self._turns)

    def next_at(self) -> float | None:
        """Return when the next turn comes; None where nobody waits."""
        while self._queue and self._turns.get(self._queue[0][1]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def take(self, now: float, *, limit: int) -> list[K]:
        """Return those whose turn has come, longest due first; they have no turn any more."""
        taken: list[K] = []
        while len(taken) < limit and (at := self.next_at()) is not None and at <= now:
            key = heapq.heappop(self._queue)[1]
            del self._turns[key]
            taken.append(key)
        return taken
