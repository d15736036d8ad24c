"""SIGHUP: the configuration file is read again, and repeated while only the store refuses.

Between two of them each secret is read again where it stands, and a new one is put in force.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog
from msgspec import Struct

from monitor.app.daemon import Daemon
from monitor.cli.service_manager import ServiceManager
from monitor.cli.settings_files import load
from monitor.config import Configuration, read_secrets_again
from monitor.logs import Redactor
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError, MonitorError
from monitor.model.waits import backoff_seconds, happens_within

log = structlog.get_logger()

READ_SECRETS_SECONDS = 30.0
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
        configuration: Configuration,
        manager: ServiceManager,
        redactor: Redactor,
        clock: Clock,
        on_reloaded: Callable[[Configuration], None],
    ) -> None:
        """``configuration`` is in force; it is this task's own from then on."""
        self._daemon = daemon
        self._path = path
        self._manager = manager
        self._redactor = redactor
        self._clock = clock
        self._on_reloaded = on_reloaded
        self._requested = asyncio.Event()
        self._configuration = configuration
        self._logged: frozenset[str] = frozenset()  # problems of secrets that were read again

    def request(self) -> None:
        self._requested.set()

    async def run(self) -> None:
        """Reload when requested, and take changed secrets over, until cancelled."""
        attempt = 0
        while True:
            await self._until_due(attempt)
            if attempt == 0 and not self._requested.is_set():
                await self._take_changed_secrets()
                continue
            self._requested.clear()
            with self._manager.reloading():
                reloaded = await self._reload()
                self._manager.change_status(reloaded.status)
            attempt = attempt + 1 if reloaded.should_retry else 0

    async def _until_due(self, failed_attempts: int) -> None:
        seconds = READ_SECRETS_SECONDS
        if failed_attempts > 0:
            seconds = backoff_seconds(
                failed_attempts, base_seconds=_RETRY_SECONDS, cap_seconds=_RETRY_CAP_SECONDS
            )
        await happens_within(
            self._requested.wait(), clock=self._clock, seconds=seconds, name="request of a reload"
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
        self._configuration = configuration
        self._on_reloaded(configuration)
        later = f"; a restart is needed for {', '.join(keys)}" if keys else ""
        return _Reloaded(status=following(configuration) + later)

    async def _take_changed_secrets(self) -> None:
        """Put the secrets in force that stand in their places now; nothing else changes."""
        read = await asyncio.to_thread(read_secrets_again, self._configuration)
        for problem in sorted(frozenset(read.problems) - self._logged):
            log.warning("secret cannot be read again, the former one stays", reason=problem)
        self._logged = frozenset(read.problems)
        if read.configuration is self._configuration:
            return
        self._redactor.register(*read.configuration.secrets())
        try:
            await self._daemon.reload(read.configuration)
        except MonitorError as exc:  # it is tried again with the next reading
            log.warning("changed secrets wait, the former ones stay", reason=str(exc))
            return
        self._configuration = read.configuration
        log.info("secrets have changed where they stand")

    def _refused(self, exc: MonitorError) -> _Reloaded:
        log.error("configuration refused, the former one stays", reason=str(exc))
        # The reason stays in the log, where secrets are masked.
        status = "the new configuration was refused, the log says why; the former one stays"
        return _Reloaded(status=status)


def following(configuration: Configuration) -> str:
    """Return the status line of a daemon that runs with this configuration."""
    names = ", ".join(workspace.name for workspace in configuration.workspaces)
    return f"following {names}"
