"""Problems of the cluster, in words: the store is away, or shards have no holder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from monitor.bus.shards import ClusterStatus
from monitor.model.clock import Clock
from monitor.model.words import counted
from monitor.web.health import ClusterProblems
from monitor.web.views.daemon.cluster import without_holder

_LEASES = 3  # a takeover needs less; a shard without a holder for longer finds none
_NAMED = 3


class ClusterHealth:
    """Remembers since when the store is away, and since when shards are without a holder."""

    def __init__(self, clock: Clock, *, away_since: Callable[[], datetime | None]) -> None:
        self._clock = clock
        self._away_since = away_since
        self._away: tuple[datetime, str] | None = None  # since when (ours), and why
        self._alone: dict[str, float] = {}  # since when (monotonic), by name
        self._takeover_seconds = 0.0

    def learn(self, status: ClusterStatus) -> None:
        """Compare an answer of the store with the former ones."""
        now = self._clock.monotonic()
        self._away = None
        self._takeover_seconds = _LEASES * status.lease_seconds
        self._alone = {name: self._alone.get(name, now) for name in without_holder(status)}

    def cannot_be_read(self, reason: str) -> None:
        """Remember why the store gave no answer."""
        since = self._clock.now() if self._away is None else self._away[0]
        self._away = self._away_since() or since, reason

    def problems(self) -> ClusterProblems:
        """Return what needs people now."""
        problems: list[str] = []
        if self._away is not None:
            since, reason = self._away
            problems.append(f"the store does not answer since {since:%Y-%m-%dT%H:%M:%SZ}: {reason}")
        now = self._clock.monotonic()
        alone = [
            name for name, since in self._alone.items() if now - since > self._takeover_seconds
        ]
        if alone:
            verb = "is" if len(alone) == 1 else "are"
            problems.append(
                f"{counted(len(alone), 'shard')} {verb} held by nobody: {_named(alone)}"
            )
        return ClusterProblems(words=tuple(problems), is_store_away=self._away is not None)


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED:,} more" if len(names) > _NAMED else shown
