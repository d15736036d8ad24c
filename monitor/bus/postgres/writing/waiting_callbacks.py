"""Callbacks that wait in the inboxes of a shard, in the order of their arrival here.

Other daemons store callbacks too, and ids become visible out of their order: a reader goes on
after a place in this list, and never after an id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from monitor.bus.contract import StoredCallback

BODIES_KEPT = 2_000


class Place(NamedTuple):
    """One waiting callback; ``callback`` is None where only the store has it."""

    place: int
    id: int
    callback: StoredCallback | None


class WaitingCallbacks:
    """All callbacks that wait, the newest with their contents."""

    def __init__(self) -> None:
        self._newest_place = 0
        self._inboxes: defaultdict[str, dict[int, int]] = defaultdict(dict)  # place -> id
        self._places: dict[int, tuple[str, int]] = {}  # of each id: workspace and place
        self._bodies: dict[int, StoredCallback] = {}
        self._forgotten: set[int] = set()  # since `begin_learning`

    def add(self, callbacks: Iterable[StoredCallback]) -> None:
        """Add callbacks after those that are known; what is known already stays where it is."""
        for callback in callbacks:
            if callback.id in self._places:
                continue
            self._add_place(callback.workspace, callback.id)
            self._bodies[callback.id] = callback
            if len(self._bodies) > BODIES_KEPT:
                del self._bodies[next(iter(self._bodies))]

    def _add_place(self, workspace: str, id_: int) -> None:
        self._newest_place += 1
        self._inboxes[workspace][self._newest_place] = id_
        self._places[id_] = (workspace, self._newest_place)

    def forget(self, ids: Iterable[int]) -> None:
        """Drop callbacks that no longer wait."""
        for id_ in ids:
            self._forgotten.add(id_)
            known = self._places.pop(id_, None)
            if known is None:
                continue
            workspace, place = known
            del self._inboxes[workspace][place]
            self._bodies.pop(id_, None)

    def begin_learning(self) -> None:
        """Begin to remember what is forgotten: a query that is under way may still return it."""
        self._forgotten = set()

    def learn(self, callback: StoredCallback) -> None:
        """Add what a query has found that was sent after `begin_learning`."""
        if callback.id not in self._forgotten:
            self.add([callback])

    def learn_unreadable(self, workspace: str, id_: int) -> None:
        """Add one that cannot be understood: reading the inbox meets the error."""
        if id_ not in self._forgotten and id_ not in self._places:
            self._add_place(workspace, id_)

    def unknown(self, ids: Iterable[int]) -> list[int]:
        return [id_ for id_ in ids if id_ not in self._places]

    def size(self, workspace: str) -> int:
        return len(self._inboxes.get(workspace, ()))

    def sizes(self) -> dict[str, int]:
        """Return how many wait, for each workspace where any does."""
        return {workspace: len(inbox) for workspace, inbox in self._inboxes.items() if inbox}

    def after(self, workspace: str, place: int, *, limit: int) -> list[Place]:
        """Return at most ``limit`` waiting callbacks after that place."""
        inbox = self._inboxes.get(workspace, {})
        later = ((at, id_) for at, id_ in inbox.items() if at > place)
        return [Place(at, id_, self._bodies.get(id_)) for at, id_ in islice(later, limit)]
