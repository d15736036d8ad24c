"""The store of many daemons: one PostgreSQL, shards by lease. Imports asyncpg only when opened."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from monitor.bus.settings import StorageSettings
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError

if TYPE_CHECKING:
    from monitor.bus.postgres.store import PostgresStore


def refuse_missing_extra() -> None:
    """Return where the driver of PostgreSQL is installed.

    Raises:
        ConfigurationError: it is not; the message names the command that installs it.
    """
    try:
        importlib.import_module("asyncpg")
    except ImportError as exc:  # also where half of it is there
        raise ConfigurationError(
            "storage.url: the driver of PostgreSQL is not installed; "
            "run pip install 'dataprep-monitor[postgres]'"
        ) from exc


async def open_postgres(
    settings: StorageSettings,
    *,
    version: str,
    url: str | None,
    clock: Clock,
    registry: CollectorRegistry,
) -> PostgresStore:
    """Return the open store of a daemon; raises as `PostgresStore.open` does.

    Raises:
        ConfigurationError: also where the driver is not installed.
    """
    refuse_missing_extra()
    from monitor.bus.postgres.store import PostgresStore  # noqa: PLC0415 - needs the extra

    return await PostgresStore.open(
        settings, version=version, url=url, clock=clock, registry=registry
    )
