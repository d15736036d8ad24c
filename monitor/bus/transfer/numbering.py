"""New positions for events that change their log. Pure.

Positions of a log have no holes, so a log that is split or merged is numbered anew, and everything
that names a position with it: consumers go on in front of the first event that they have not read.
The new numbers follow those of all former logs: to subscribers no ``sequence`` goes back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class ConsumerPlace(NamedTuple):
    """How far a consumer of one shard has come."""

    shard: str
    name: str
    position: int
    lost: int
    counted_until: int


class Numbering:
    """Numbers the events of each new log in the order in which they are placed.

    ``named`` are positions by shard that something refers to: their new ones are kept. ``after``
    says by new log which position goes before its first one; 0 where it is not named.
    """

    def __init__(
        self,
        consumers: Iterable[ConsumerPlace],
        named: Iterable[tuple[str, int]] = (),
        *,
        after: Mapping[str, int],
    ) -> None:
        self._consumers: defaultdict[str, list[ConsumerPlace]] = defaultdict(list)
        for consumer in consumers:
            self._consumers[consumer.shard].append(consumer)
        self._named = frozenset(named)
        self._newest = Counter(after)
        self._first_unread: dict[tuple[str, str], int] = {}
        self._moved: dict[tuple[str, int], int] = {}

    def reserve(self, shard: str, position: int, to: str) -> None:
        """Give a new position to an event that is gone; before any event is placed."""
        self._newest[to] += 1
        self._moved[shard, position] = self._newest[to]

    def place(self, shard: str, position: int, to: str) -> int:
        """Return the new position of the next event."""
        self._newest[to] += 1
        new = self._newest[to]
        for consumer in self._consumers[shard]:
            if consumer.position < position:
                self._first_unread.setdefault((to, consumer.name), new)
        self.join(shard, position, new)
        return new

    def join(self, shard: str, position: int, new: int) -> None:
        """Count an event as the one that was placed at ``new``."""
        if (shard, position) in self._named:
            self._moved[shard, position] = new

    def moved(self, shard: str, position: int) -> int:
        """Return the new position of one that is named."""
        return self._moved[shard, position]

    def newest(self, shard: str) -> int:
        """Return the last position given in a new log."""
        return self._newest[shard]

    def continued(self, shard: str, consumer: str) -> int:
        """Return the position behind which a consumer goes on in a new log."""
        unread = self._first_unread.get((shard, consumer))
        return self._newest[shard] if unread is None else unread - 1
