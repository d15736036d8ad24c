"""Silences that people made or ended while no daemon followed a shard."""

from __future__ import annotations

from monitor.alerting.alerts.pending_step import SILENCE, tables_of
from monitor.alerting.engine.commit import CONSUMER as ALERTING
from monitor.bus.shards import CLUSTER, ShardsElsewhere
from monitor.model.alerts import Silence

_CONFIGURED = "config"  # origin of those that each daemon has anyway


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
