"""SIGHUP: the configuration file is read again, and repeated while only the store refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog
from msgspec import Struct

from monitor.app.daemon import Daemon
from monitor.cli.service_manager import ServiceManager
from monitor.cli.settings_files import load
from monitor.config import Configuration
from monitor.logs import Redactor
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError, MonitorError
from monitor.model.waits import backoff_seconds, happens_within

log = structlog.get_logger()

_RETRY_SECONDS, _RETRY_CAP_SECONDS = 1.0, 60.0


class _Reloaded(Struct, frozen=True, kw_only=True):
    """What a reload came to; ``status`` is one line for the service manager."""

    status: str
    should_retry: bool = False


class SighupReload:
    """Reloads a daemon from its file at each `request`. Several requests may become one reload."""

    def __init__(
        self,
        daemon: Daemon,
        path: Path,
        *,
        manager: ServiceManager,
        redactor: Redactor,
        clock: Clock,
        on_reloaded: Callable[[Configuration], None],
    ) -> None:
        self._daemon = daemon
        self._path = path
        self._manager = manager
        self._redactor = redactor
        self._clock = clock
        self._on_reloaded = on_reloaded
        self._requested = asyncio.Event()

    def request(self) -> None:
        self._requested.set()

    async def run(self) -> None:
        """Reload when requested, until cancelled."""
        attempt = 0
        while True:
            await self._until_due(attempt)
            self._requested.clear()
            with self._manager.reloading():
                reloaded = await self._reload()
                self._manager.change_status(reloaded.status)
            attempt = attempt + 1 if reloaded.should_retry else 0

    async def _until_due(self, failed_attempts: int) -> None:
        if failed_attempts == 0:
            await self._requested.wait()
            return
        seconds = backoff_seconds(
            failed_attempts, base_seconds=_RETRY_SECONDS, cap_seconds=_RETRY_CAP_SECONDS
        )
        await happens_within(
            self._requested.wait(), clock=self._clock, seconds=seconds, name="retry of a reload"
        )

    async def _reload(self) -> _Reloaded:
        """Reload the file as it is now."""
        try:
            # In a thread: commands may print some of the secrets.
            configuration = await asyncio.to_thread(load, self._path)
        except MonitorError as exc:
            await self._daemon.refuse_configuration(str(exc))
            return self._refused(exc)
        self._redactor.register(*configuration.secrets())
        try:
            keys = await self._daemon.reload(configuration)
        except BusUnavailableError as exc:
            log.warning("reload waits for the store, the former one stays", reason=str(exc))
            status = "the store refuses the new configuration, the former one stays; trying again"
            return _Reloaded(status=status, should_retry=True)
        except MonitorError as exc:
            return self._refused(exc)
        self._on_reloaded(configuration)
        later = f"; a restart is needed for {', '.join(keys)}" if keys else ""
        return _Reloaded(status=following(configuration) + later)

    def _refused(self, exc: MonitorError) -> _Reloaded:
        log.error("configuration refused, the former one stays", reason=str(exc))
        # The reason stays in the log, where secrets are masked.
        status = "the new configuration was refused, the log says why; the former one stays"
        return _Reloaded(status=status)


def following(configuration: Configuration) -> str:
    """Return the status line of a daemon that runs with this configuration."""
    names = ", ".join(workspace.name for workspace in configuration.workspaces)
    return f"following {names}"
