"""Shards whose parts have failed in this daemon: when each may be claimed here again."""

from __future__ import annotations

from monitor.model.clock import Clock
from monitor.model.waits import backoff_seconds

_BASE_SECONDS = 5.0
_CAP_SECONDS = 300.0
_HEALTHY_SECONDS = 600.0  # a shard that was held for so long begins its waits again from the first


class GivenUpShards:
    """Waits that grow with each failure of a shard, up to a cap."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._attempts: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def add(self, shard: str, *, held_seconds: float) -> float:
        """Return the seconds for which the shard is not claimed here."""
        before = 0 if held_seconds > _HEALTHY_SECONDS else self._attempts.get(shard, 0)
        self._attempts[shard] = before + 1
        seconds = backoff_seconds(before + 1, base_seconds=_BASE_SECONDS, cap_seconds=_CAP_SECONDS)
        self._until[shard] = self._clock.monotonic() + seconds
        return seconds

    def __contains__(self, shard: str) -> bool:
        return self._until.get(shard, 0.0) > self._clock.monotonic()

    def seconds_to_next(self) -> float | None:
        """Return how long it is until the next one may be claimed; None where none waits."""
        now = self._clock.monotonic()
        return min((until - now for until in self._until.values() if until > now), default=None)
