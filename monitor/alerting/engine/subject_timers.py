"""When subjects are to be evaluated again, by their own clocks. In memory.

A restart loses nothing: everything is evaluated once, and rules ask for their next time.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from datetime import datetime

from monitor.alerting.attribution.subjects import key_of
from monitor.alerting.rules.contract import Subject

Domain = tuple[str, str]  # workspace, and the kind of run by whose lists it is evaluated

_LEAST_ROOM = 64  # entries of a heap, before replaced ones are dropped


class SubjectTimers:
    """One entry for each subject: the earliest time that any of its rules asked for."""

    def __init__(self) -> None:
        self._due: dict[str, tuple[datetime, Domain]] = {}
        self._heaps: defaultdict[Domain, list[tuple[datetime, int, Subject]]] = defaultdict(list)
        self._room: dict[Domain, int] = {}
        self._order = itertools.count()

    def put(self, domain: Domain, subject: Subject, at: datetime | None) -> None:
        """Set when the subject is due; None: never by itself."""
        key = key_of(subject)
        if at is None:
            self._due.pop(key, None)
        elif self._due.get(key) != (at, domain):
            self._due[key] = (at, domain)
            heap = self._heaps[domain]
            heapq.heappush(heap, (at, next(self._order), subject))
            if len(heap) > self._room.get(domain, _LEAST_ROOM):
                self._drop_replaced(domain)

    def __len__(self) -> int:
        """Return the number of entries, including replaced ones."""
        return sum(map(len, self._heaps.values()))

    def next_at(self, domain: Domain) -> datetime | None:
        """Return when the first subject of a domain is due, None where none is."""
        heap = self._heaps.get(domain, [])
        while heap and self._due.get(key_of(heap[0][2])) != (heap[0][0], domain):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def domains(self) -> tuple[Domain, ...]:
        return tuple(self._heaps)

    def take_due(self, domain: Domain, as_of: datetime) -> list[Subject]:
        """Remove and return what is due in a domain whose clock is known up to ``as_of``."""
        heap = self._heaps[domain]
        taken: list[Subject] = []
        while heap and heap[0][0] <= as_of:
            at, _, subject = heapq.heappop(heap)
            key = key_of(subject)
            # A replaced entry may still be in the heap.
            if self._due.get(key) == (at, domain):
                del self._due[key]
                taken.append(subject)
        if not heap:
            del self._heaps[domain]
        return taken

    def _drop_replaced(self, domain: Domain) -> None:
        # Their times may lie weeks ahead, and each run that ends may replace another entry.
        valid = {
            key: entry
            for entry in self._heaps[domain]
            if self._due.get(key := key_of(entry[2])) == (entry[0], domain)
        }
        heap = list(valid.values())
        heapq.heapify(heap)
        self._heaps[domain] = heap
        self._room[domain] = max(_LEAST_ROOM, 2 * len(heap))
