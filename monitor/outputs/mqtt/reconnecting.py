"""Decides the wait before a reconnection, and whether another client has our client id.

Two daemons with one ``[mqtt] instance`` take the session from each other without end. A broker that
speaks MQTT 5 may say so; many only close the connection. No I/O and no clock.
"""

from __future__ import annotations

from random import Random

from monitor.model.waits import backoff_seconds
from monitor.outputs.mqtt.library_overrides import LinkEnd, LinkEndKind

# A daemon that seems to fight for its session waits at most so many times the usual cap.
FIGHT_CAP_FACTOR = 10
_SUSPICIOUS_CLOSURES = 3  # in a row: a broker that restarts closes fewer
_LEAST_JITTER = 0.5


class ReconnectBackoff:
    """Counts failed connections in a row; a link that lasted resets the counts."""

    def __init__(
        self,
        *,
        instance: str,
        base_seconds: float,
        cap_seconds: float,
        jitter: Random,
        is_shard: bool = False,
    ) -> None:
        """``is_shard``: other sessions of ours at the broker differ in their client ids alone."""
        self._instance = instance
        self._is_shard = is_shard
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._jitter = jitter
        self._attempts = 0
        self._takeovers = 0
        self._closures = 0
        self._seconds = base_seconds

    @property
    def hint(self) -> str | None:
        """What to change where another client seems to use our client id; None otherwise."""
        change = "give each daemon on this broker its own [mqtt] instance"
        if self._is_shard:
            change = (
                "give each cluster on this broker its own [mqtt] instance, and let the broker keep "
                "client ids: in mosquitto, on a listener without use_username_as_clientid"
            )
        if self._takeovers:
            times = "once" if self._takeovers == 1 else f"{self._takeovers} times"
            return (
                f"another client connected as {self._instance!r} and took over the session "
                f"{times}; {change}"
            )
        if self._closures >= _SUSPICIOUS_CLOSURES:
            return (
                f"the broker closed {self._closures} connections in a row soon after it accepted "
                f"them; if another client connects as {self._instance!r}, {change}"
            )
        return None

    def record_failure(self) -> None:
        """Count an attempt that led to no connection."""
        self._attempts += 1
        self._seconds = self._doubled(self._attempts, self._cap_seconds)

    def record_end(self, end: LinkEnd, *, held_seconds: float) -> None:
        """Count the end of a connection that the broker had accepted."""
        if held_seconds > self._cap_seconds * (FIGHT_CAP_FACTOR if self._fights else 1):
            self._attempts = self._takeovers = self._closures = 0
        self._attempts += 1
        self._takeovers += end.kind is LinkEndKind.TAKEN_OVER
        self._closures = self._closures + 1 if end.kind is LinkEndKind.CLOSED_BY_PEER else 0
        if self._fights:
            self._seconds = self._doubled(self._fights, self._cap_seconds * FIGHT_CAP_FACTOR)
        else:
            self._seconds = self._doubled(self._attempts, self._cap_seconds)

    def wait_seconds(self) -> float:
        """Return the wait before the next attempt; up to half of it is taken off by chance.

        Many daemons do not connect to a returning broker at once then, and two that fight for one
        session do not stay in step.
        """
        return self._seconds * self._jitter.uniform(_LEAST_JITTER, 1.0)

    @property
    def _fights(self) -> int:
        """How often another client seems to have taken the session."""
        is_suspicious = self._closures >= _SUSPICIOUS_CLOSURES
        return max(self._takeovers, self._closures if is_suspicious else 0)

    def _doubled(self, times: int, cap_seconds: float) -> float:
        return backoff_seconds(times, base_seconds=self._base_seconds, cap_seconds=cap_seconds)
