"""When time alone changes an alert. In memory.

The daemon checks all alerts at each evaluation. A backtest passes over the time in which nothing
is due, so it asks here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from datetime import datetime

from monitor.alerting.alerts import lifecycle
from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.alerts.lifecycle import LifecycleLimits
from monitor.alerting.rules.compiled import Rule


class AlertTimers:
    """Alerts by the time at which time alone changes them."""

    def __init__(self, rules: Mapping[str, Rule], limits: LifecycleLimits) -> None:
        self._rules = rules
        self._limits = limits
        self._at: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []
        self._due: set[str] = set()

    def update(self, instances: Iterable[tuple[str, AlertInstance | None]]) -> None:
        """Set the timers of alerts as they are now; None for one that was dropped."""
        for key, instance in instances:
            at = None if instance is None else self._timer_of(instance)
            self._due.discard(key)
            if at is None:
                self._at.pop(key, None)
            else:
                self._at[key] = at
                heapq.heappush(self._heap, (at, key))

    def due(self, now: datetime) -> frozenset[str]:
        """Return the alerts whose time has come. They stay due until `update` names them."""
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if self._at.get(key) == at:  # else a newer entry replaced it
                self._due.add(key)
        return frozenset(self._due)

    def next_at(self) -> datetime | None:
        """Return when the next alert is due; in the past where one is due already."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        times = [self._at[key] for key in self._due]
        if self._heap:
            times.append(self._heap[0][0])
        return min(times, default=None)

    def _timer_of(self, instance: AlertInstance) -> datetime | None:
        rule = self._rules.get(instance.alert.name)
        if rule is None:
            return None
        if rule.mute and instance.is_open:
            return instance.since  # mute times begin and end by the wall clock
        return lifecycle.next_timer_at(instance, rule.settings, self._limits)
