"""Opens the store. The rest of the daemon knows the bus contract only."""

from __future__ import annotations

from typing import Protocol

from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus
from monitor.bus.settings import StorageSettings
from monitor.bus.sqlite.store import SqliteBus
from monitor.model.clock import Clock


class DaemonStore(EventBus, Protocol):
    """The store for the life of a daemon."""

    async def watch(self) -> None:
        """Return when the store is closed.

        Raises:
            BusUnavailableError: it was lost, or found damaged; the daemon must end.
        """


class OpenStore(Protocol):
    """Opens the store of a daemon."""

    async def __call__(
        self, settings: StorageSettings, *, clock: Clock, registry: CollectorRegistry
    ) -> DaemonStore:
        """Return the open store.

        Raises:
            BusError: it cannot be opened, or another daemon holds it.
        """


async def open_sqlite(
    settings: StorageSettings, *, clock: Clock, registry: CollectorRegistry
) -> DaemonStore:
    return await SqliteBus.open(settings, clock=clock, registry=registry)
