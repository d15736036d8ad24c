"""Why a daemon could not start, said as `doctor` says it: location, value and hint in one line."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry

from monitor.app.store import open_store as open_any
from monitor.bus.settings import StorageSettings, store_path
from monitor.bus.shards import ShardStore
from monitor.cli.doctor_checks.addresses import server_address
from monitor.cli.doctor_checks.callbacks_address import callback_address
from monitor.cli.doctor_report import without_secrets
from monitor.cli.store_trial import as_problem, try_store
from monitor.config import Configuration
from monitor.config.problems import shown
from monitor.logs import Redactor
from monitor.model.check_lines import CheckOutcome
from monitor.model.clock import Clock
from monitor.model.errors import BusError, BusLockedError

_LOCKED = "stop that process, or name another file in storage.url"


async def open_store(
    settings: StorageSettings, *, clock: Clock, registry: CollectorRegistry, url: str | None
) -> ShardStore:
    """Open the store.

    Raises:
        BusError: with the key, its value, the reason and a hint.
    """
    try:
        return await open_any(settings, clock=clock, registry=registry, url=url)
    except BusError as exc:
        trial = await asyncio.to_thread(try_store, settings.url)
        if trial.obstacle is not None:
            raise type(exc)(str(as_problem(settings.url, trial.obstacle))) from exc
        hint = f"; {_LOCKED}" if isinstance(exc, BusLockedError) else ""
        raise type(exc)(f"storage.url: {shown(settings.url)}: {exc}{hint}") from exc


async def address_problems(
    configuration: Configuration, *, clock: Clock, redactor: Redactor
) -> list[str]:
    """Return a sentence for each address that cannot be listened on."""
    store = store_path(configuration.storage.url)
    serving = await server_address(configuration.server, store)
    async with callback_address(configuration, clock=clock) as listening:
        lines = {"server": serving.lines, "callbacks": listening.lines}
    return [
        f"{section}.listen: {line.found}; {line.hint}"
        for section, found in lines.items()
        for line in (without_secrets(line, redactor) for line in found)
        if line.outcome is CheckOutcome.FAILED
    ]
