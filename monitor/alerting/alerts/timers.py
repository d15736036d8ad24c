"""Due times by key, in memory. After a restart everything is evaluated once."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from datetime import datetime
from typing import Generic, TypeVar

from monitor.alerting.alerts import lifecycle
from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.alerts.lifecycle import LifecycleLimits
from monitor.alerting.rules.compiled import Rule

T = TypeVar("T")

_LEAST_ROOM = 64  # entries of a heap, before replaced ones are dropped


class DueTimes(Generic[T]):
    """Values by key, each with the time at which it is due: the one that was set last."""

    def __init__(self) -> None:
        self._due: dict[str, tuple[datetime, T]] = {}
        self._heap: list[tuple[datetime, str]] = []  # with entries that were replaced since

    def put(self, key: str, value: T, at: datetime | None) -> None:
        """Set when the value is due; None: never by itself."""
        if at is None:
            self._due.pop(key, None)
            return
        before = self._due.get(key)
        self._due[key] = (at, value)
        if before is None or before[0] != at:
            heapq.heappush(self._heap, (at, key))
        if len(self._heap) > max(_LEAST_ROOM, 2 * len(self._due)):
            # Replaced times may lie weeks ahead, and each run that ends may replace another one.
            self._heap = [(due_at, name) for name, (due_at, _) in self._due.items()]
            heapq.heapify(self._heap)

    def put_earlier(self, key: str, value: T, at: datetime) -> None:
        """Set when the value is due, unless it is due earlier."""
        before = self._due.get(key)
        if before is None or at < before[0]:
            self.put(key, value, at)

    def __len__(self) -> int:
        """Return the number of entries, including replaced ones."""
        return len(self._heap)

    def next_at(self) -> datetime | None:
        """Return when the first value is due, None where none is."""
        while self._heap and self._is_replaced(*self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: datetime) -> list[T]:
        """Remove and return what is due."""
        taken: list[T] = []
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if not self._is_replaced(at, key):
                taken.append(self._due.pop(key)[1])
        return taken

    def _is_replaced(self, at: datetime, key: str) -> bool:
        current = self._due.get(key)
        return current is None or current[0] != at


class AlertTimers:
    """When time alone changes which alerts, as long as nothing suppresses any."""

    def __init__(self, rules: Mapping[str, Rule], limits: LifecycleLimits) -> None:
        self._rules = rules
        self._limits = limits
        self._times: DueTimes[str] = DueTimes()
        self._due: dict[str, datetime] = {}  # since when we know

    def update(self, key: str, instance: AlertInstance | None) -> None:
        """Set the timer of an alert as it is now; None for one that was dropped."""
        self._due.pop(key, None)
        self._times.put(key, key, None if instance is None else self._timer_of(instance))

    def due(self, now: datetime) -> frozenset[str]:
        """Return the alerts whose time has come. They stay due until `update` names them."""
        self._due.update(dict.fromkeys(self._times.take_due(now), now))
        return frozenset(self._due)

    def next_at(self) -> datetime | None:
        """Return when the next alert is due; in the past where one is due already."""
        next_at = self._times.next_at()
        times = [*self._due.values(), *([] if next_at is None else [next_at])]
        return min(times, default=None)

    def _timer_of(self, instance: AlertInstance) -> datetime | None:
        rule = self._rules.get(instance.alert.name)
        if rule is None:
            return None
        if rule.mute and instance.is_open:
            return instance.since  # mute times begin and end by the wall clock
        return lifecycle.next_timer_at(instance, rule.settings, self._limits)
