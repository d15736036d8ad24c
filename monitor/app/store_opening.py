"""Opens the store. The rest of the daemon knows the contracts only."""

from __future__ import annotations

from typing import Protocol

from prometheus_client import CollectorRegistry

from monitor import __version__
from monitor.bus.postgres import open_postgres
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import ShardStore
from monitor.bus.sqlite.sole_shard import SqliteStore
from monitor.model.clock import Clock


class OpenStore(Protocol):
    """Opens the store of a daemon."""

    async def __call__(
        self,
        settings: StorageSettings,
        *,
        clock: Clock,
        registry: CollectorRegistry,
        url: str | None,
    ) -> ShardStore:
        """Return the open store; ``url`` is of this daemon's page, for those that share the store.

        Raises:
            BusError: it cannot be opened, or another daemon holds it.
        """


async def open_store(
    settings: StorageSettings,
    *,
    clock: Clock,
    registry: CollectorRegistry,
    url: str | None = None,
) -> ShardStore:
    """Return the store that ``settings.url`` names, whatever it is."""
    if settings.postgres is None:
        return await SqliteStore.open(settings, clock=clock, registry=registry)
    return await open_postgres(
        settings, version=__version__, url=url, clock=clock, registry=registry
    )
