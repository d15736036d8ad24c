"""Words for a daemon that could not start, as in `doctor`: location, value and hint in a line."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry

from monitor.app.store_opening import open_store as open_any
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import ShardStore
from monitor.cli.database_check import UNREACHABLE
from monitor.cli.doctor_checks.addresses import server_address
from monitor.cli.doctor_checks.callbacks_address import callback_lines
from monitor.cli.doctor_report import without_secrets
from monitor.cli.store_access import as_problem, check_store_access
from monitor.config import Configuration
from monitor.config.problems import shown
from monitor.logs import Redactor
from monitor.model.checks import CheckOutcome
from monitor.model.clock import Clock
from monitor.model.errors import BusError, BusLockedError, BusUnavailableError, ConfigurationError

_KEY = "storage.url: "
_LOCKED = "stop that process, or name another file in storage.url"


async def open_store(
    settings: StorageSettings, *, clock: Clock, registry: CollectorRegistry, url: str | None
) -> ShardStore:
    """Open the store.

    Raises:
        BusError, ConfigurationError: with the key, its value, the reason and a hint.
    """
    try:
        return await open_any(settings, clock=clock, registry=registry, url=url)
    except ConfigurationError as exc:
        raise ConfigurationError([_named(settings, problem) for problem in exc.problems]) from exc
    except BusError as exc:
        if settings.postgres is not None:
            hint = f"; {UNREACHABLE}" if type(exc) is BusUnavailableError else ""
            raise type(exc)(_named(settings, f"{exc}{hint}")) from exc
        checked = await asyncio.to_thread(check_store_access, settings.url)
        if checked.problem is not None:
            raise type(exc)(str(as_problem(settings.url, checked.problem))) from exc
        hint = f"; {_LOCKED}" if isinstance(exc, BusLockedError) else ""
        raise type(exc)(_named(settings, f"{exc}{hint}")) from exc


def _named(settings: StorageSettings, sentence: str) -> str:
    """Return a sentence about the store after its key and value."""
    return f"{_KEY}{shown(settings.url)}: {sentence.removeprefix(_KEY)}"


async def address_problems(
    configuration: Configuration, *, clock: Clock, redactor: Redactor
) -> list[str]:
    """Return a sentence for each address that cannot be listened on."""
    serving = await server_address(configuration.server, configuration.storage)
    lines = {
        "server": serving.lines,
        "callbacks": await callback_lines(configuration, clock=clock),
    }
    return [
        f"{section}.listen: {line.found}; {line.hint}"
        for section, found in lines.items()
        for line in (without_secrets(line, redactor) for line in found)
        if line.outcome is CheckOutcome.FAILED
    ]
