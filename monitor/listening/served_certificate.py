"""The certificate that a listener serves with, loaded again when its files change.

`ServedCertificate` owns the context of new connections; connections that are there keep theirs.
Runs on the event loop, and reads files in threads.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import structlog

from monitor.listening.settings import TlsSettings
from monitor.listening.tls import ServedPair, load_pair
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError
from monitor.model.waits import WakeSignal

log = structlog.get_logger()

_CHECK_SECONDS = 10.0  # between two checks of the files

# Called with the listener and when its certificate expires.
CertificateLoaded = Callable[[str, datetime], None]
_Stamps = tuple[tuple[int, int, int] | None, ...]


def not_shown(listener: str, expires_at: datetime) -> None:
    """Stand in where no metric shows when the certificate of a listener expires."""


class ServedCertificate:
    """Loads the pair at start and whenever its files have changed; a bad pair changes nothing."""

    def __init__(
        self,
        listener: str,
        settings: TlsSettings,
        *,
        needs_client: bool,
        clock: Clock,
        on_loaded: CertificateLoaded,
    ) -> None:
        self._listener = listener
        self._settings = settings
        self._needs_client = needs_client
        self._clock = clock
        self._on_loaded = on_loaded
        self._wake = WakeSignal(clock)
        self._stamps: _Stamps | None = None  # of the files as they were loaded
        self._refused: _Stamps | None = None  # of files about which a line was logged
        self._context: ssl.SSLContext | None = None

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next connection; there once it was loaded."""
        assert self._context is not None  # noqa: S101 - the listener loads before it listens
        return self._context

    async def load(self) -> None:
        """Load the pair.

        Raises:
            ConfigurationError: it cannot be used.
        """
        # Before the files are read: what changes meanwhile is loaded at the next check.
        stamps = await asyncio.to_thread(_stamps_of, self._settings)
        self._take(await asyncio.to_thread(self._read), stamps)

    def check_now(self) -> None:
        """Check the files now, not only when it is time."""
        self._refused = None
        self._wake.set()

    async def run(self) -> None:
        """Load the pair again whenever its files have changed, until cancelled."""
        while True:
            await self._wake.wait(_CHECK_SECONDS)
            await self._renew()

    async def _renew(self) -> None:
        stamps = await asyncio.to_thread(_stamps_of, self._settings)
        if stamps == self._stamps:
            return
        try:
            pair = await asyncio.to_thread(self._read)
        except ConfigurationError as exc:
            self._refuse(stamps, reason=str(exc))
            return
        self._take(pair, stamps)

    def _refuse(self, stamps: _Stamps, *, reason: str) -> None:
        # Perhaps the other file of the pair is still to come: each check tries again.
        if stamps != self._refused:
            log.error("certificate refused, the former one stays", reason=reason)
            self._refused = stamps

    def _read(self) -> ServedPair:
        section = f"{self._listener}.tls"
        return load_pair(self._settings, section=section, needs_client=self._needs_client)

    def _take(self, pair: ServedPair, stamps: _Stamps) -> None:
        self._context, self._stamps, self._refused = pair.context, stamps, None
        self._on_loaded(self._listener, pair.expires_at)
        has_expired = pair.expires_at <= self._clock.now()
        (log.error if has_expired else log.info)(
            "certificate has expired" if has_expired else "certificate loaded",
            listener=self._listener,
            expires_at=pair.expires_at.isoformat(),
        )


def _stamps_of(settings: TlsSettings) -> _Stamps:
    """Return for each file what changes with its content; None where it is gone."""
    return tuple(
        _stamp_of(path)
        for path in (settings.certificate_file, settings.key_file, settings.client_ca_file)
        if path is not None
    )


def _stamp_of(path: str) -> tuple[int, int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
