"""Opens the store. The rest of the daemon knows the contracts only."""

from __future__ import annotations

import socket
from typing import Protocol

from prometheus_client import CollectorRegistry

from monitor import __version__
from monitor.bus.postgres import open_postgres
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import ShardStore
from monitor.bus.sqlite.sole_shard import SqliteStore
from monitor.listening.settings import split_address
from monitor.model.clock import Clock
from monitor.web.settings import ServerSettings

_ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared only


def page_url(settings: ServerSettings) -> str | None:
    """Return where other machines find this daemon's page; None where the port is not known yet.

    Where it listens on all addresses, that is the host's name, or the first of ``server.hosts``.
    """
    host, port = split_address(settings.listen)
    if port == 0:
        return None
    if host in _ANY_ADDRESS:
        host = settings.hosts[0] if settings.hosts else socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


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
