"""Measures how long heartbeats are seen unchanged: expiry without the server's clock.

After a fail-over, times of the database are those of another host. So an expiry is counted here,
on a clock that is never set, from when a renewal was first seen. A declaration that a daemon is
gone names the renewal that was seen, so that one which came meanwhile counts.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from monitor.bus.postgres.leases.lease import RENEWALS
from monitor.model.clock import Clock


class Renewal(NamedTuple):
    """One renewal of one process. Its time only tells it from others."""

    incarnation: UUID
    renewed_at: datetime
    age_seconds: float  # by the server's clock
    lease_seconds: float

    @property
    def identity(self) -> tuple[UUID, datetime]:
        return self.incarnation, self.renewed_at


class ObservedHeartbeats:
    """Belongs to the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[Renewal, float]] = {}  # with when it began to count

    def seconds_left(self, daemon_id: str, renewal: Renewal) -> float:
        """Return how long the heartbeat still counts; 0 or less where it has expired.

        To be called right after the row was read.
        """
        now = self._clock.monotonic()
        known = self._seen.get(daemon_id)
        if known is None or known[0].identity != renewal.identity:
            # The server's clock may have been set since: so its word counts for less than the
            # margin between the deadline of a lease and its expiry.
            age = min(max(renewal.age_seconds, 0.0), renewal.lease_seconds / RENEWALS)
            known = self._seen[daemon_id] = (renewal, now - age)
        return known[1] + renewal.lease_seconds - now

    def keep_only(self, daemons: Collection[str]) -> None:
        """Forget all others: names may be given again for each process."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in daemons}
