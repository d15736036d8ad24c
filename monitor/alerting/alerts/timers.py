"""When time alone makes something of what is held, where nothing else changes. In memory.

A daemon looks every few seconds, whatever happens. Whoever lets a recorded past go by again asks
here which moments of it are worth a look.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from monitor.alerting.alerts import lifecycle
from monitor.alerting.alerts.lifecycle import AlertInstance, LifecycleLimits
from monitor.alerting.rules.compiled import Rule


class NextTimers(Struct, frozen=True, kw_only=True):
    """The first moments that are worth a look: by our clock, and by that of what is judged."""

    ours: datetime | None = None
    theirs: datetime | None = None


class AlertTimers:
    """The episodes, by when time makes something of them."""

    def __init__(self) -> None:
        self._at: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []
        self._awake: set[str] = set()

    def take(
        self,
        instances: Iterable[tuple[str, AlertInstance | None]],
        rules: Mapping[str, Rule],
        limits: LifecycleLimits,
    ) -> None:
        """Take note of episodes as they are now; None for one that is there no more."""
        for key, instance in instances:
            at = None if instance is None else _next_timer_at(instance, rules, limits)
            self._awake.discard(key)
            if at is None:
                self._at.pop(key, None)
            else:
                self._at[key] = at
                heapq.heappush(self._heap, (at, key))

    def awake(self, now: datetime) -> frozenset[str]:
        """Return those whose time has come. They stay awake until something becomes of them."""
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if self._at.get(key) == at:  # else it was overtaken by a newer entry
                self._awake.add(key)
        return frozenset(self._awake)

    def next_at(self) -> datetime | None:
        """Return when the next one wakes, an instant of the past where one is awake."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        times = [self._at[key] for key in self._awake]
        if self._heap:
            times.append(self._heap[0][0])
        return min(times, default=None)


def _next_timer_at(
    instance: AlertInstance, rules: Mapping[str, Rule], limits: LifecycleLimits
) -> datetime | None:
    rule = rules.get(instance.alert.name)
    if rule is None:
        return None
    if rule.mute and instance.is_open:
        return instance.since  # mute times begin and end by themselves
    return lifecycle.next_timer_at(instance, rule.settings, limits)
