"""The work of a cluster's holder for all daemons: watches it, and knows the silences of people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta

from monitor.alerting.alerts.pending_step import SILENCE, tables_of
from monitor.alerting.engine.committed_state import CONSUMER as ALERTING
from monitor.alerting.rules.monitor_degraded import GONE, UNHELD
from monitor.bus.shards import CLUSTER, ClusterStatus, ShardsElsewhere, ShardStore
from monitor.model.alerts import Silence, Trouble
from monitor.model.clock import Clock

_READ_SECONDS = 5.0
_GONE_SHOWN = timedelta(days=1)

_CONFIGURED = "config"  # origin of those that each daemon has anyway


class ClusterWatch:
    """``troubles`` is what the store showed last; the engine of the shard alerts about it.

    None before the first read: alerts of the watch before this one neither end nor fire by that.
    """

    def __init__(
        self, store: ShardStore, *, configured: Callable[[], Collection[str]], clock: Clock
    ) -> None:
        """``configured`` returns the shards that should have a holder."""
        self._store = store
        self._configured = configured
        self._clock = clock
        self._unheld_since: dict[str, datetime] = {}
        self.troubles: tuple[Trouble, ...] | None = None

    async def run(self) -> None:
        """Read who shares the store until cancelled.

        Raises:
            BusUnavailableError: the store does not answer; the supervisor tries again.
        """
        while True:
            if (status := await self._store.cluster()) is not None:
                self.read(status)
            await self._clock.sleep(_READ_SECONDS)

    def read(self, status: ClusterStatus) -> None:
        """Find what is wrong by this status."""
        now = self._clock.now()
        alive = {daemon.id for daemon in status.daemons if daemon.is_alive}
        configured = self._configured()
        unheld = {
            shard.name
            for shard in status.shards
            if shard.name in configured and shard.holder not in alive
        }
        self._unheld_since = {name: self._unheld_since.get(name, now) for name in sorted(unheld)}
        self.troubles = (*_gone(status, now), *_unheld(status, self._unheld_since))


def _gone(status: ClusterStatus, now: datetime) -> Iterator[Trouble]:
    for daemon in status.daemons:
        if not daemon.is_alive:
            # Ages are of the server's clock, which need not be ours, and may have been set.
            age = status.at - daemon.expires_at
            since = now - age if timedelta() <= age <= _GONE_SHOWN else now
            reason = (
                f"the daemon {daemon.id} on {daemon.host} has not renewed its lease since "
                f"{daemon.renewed_at:%Y-%m-%dT%H:%M:%SZ}, nor ended in order; others take over"
            )
            yield Trouble(part=f"{GONE}:{daemon.id}", since=since, reason=reason)


def _unheld(status: ClusterStatus, since: dict[str, datetime]) -> Iterator[Trouble]:
    for shard in status.shards:
        if shard.name in since:
            reason = (
                f"no daemon holds the shard {shard.name}: nothing is watched in "
                f"{', '.join(shard.workspaces) or 'it'}"
            )
            yield Trouble(part=f"{UNHELD}:{shard.name}", since=since[shard.name], reason=reason)


async def cluster_silences(elsewhere: ShardsElsewhere | None) -> list[Silence]:
    """Return the silences that people made, and those that ended within a day.

    Each is stored in every shard that there is then, the one of the cluster among them.

    Raises:
        BusUnavailableError: they cannot be read.
    """
    if elsewhere is None:  # the only shard has them all
        return []
    stored = await elsewhere.consumer_states(ALERTING, (CLUSTER,))
    tables = await tables_of(stored.get(CLUSTER, {}))
    return [silence for silence in tables[SILENCE].values() if silence.origin != _CONFIGURED]
