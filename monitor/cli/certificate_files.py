"""Examines the certificates of the listeners: the pair, until when, and for which names."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from msgspec import Struct

from monitor.config import Configuration, Problem
from monitor.config.problems import shown
from monitor.listening.settings import TlsSettings
from monitor.listening.tls import ServedPair, load_pair, missing_names
from monitor.model.errors import ConfigurationError

_SOON = timedelta(days=14)


class CertificateFinding(Struct, frozen=True, kw_only=True):
    """What is found about the certificate of one listener."""

    section: str  # "server", "callbacks"
    problem: Problem | None = None  # the listener cannot use it
    doubts: tuple[Problem, ...] = ()  # some or all clients refuse it
    expires_at: datetime | None = None

    @property
    def summary(self) -> str:
        return f"certificate of {self.section} until {self.expires_at:%Y-%m-%d %H:%M} UTC"


def examine_certificates(
    configuration: Configuration, *, now: datetime
) -> list[CertificateFinding]:
    """Return what is found about each listener that has TLS. Blocks: it reads files."""
    return [
        _examined(section, settings, names, now)
        for section, settings, names in _served(configuration)
    ]


def _served(configuration: Configuration) -> Iterator[tuple[str, TlsSettings, list[str]]]:
    """Yield section and settings of each listener with TLS, and the names that clients use."""
    server, callbacks = configuration.server, configuration.callbacks
    if server.tls is not None:
        yield "server", server.tls, server.certified_names
    if callbacks is not None and callbacks.tls is not None:
        urls = [
            workspace.callbacks.public_url
            for workspace in configuration.workspaces
            if workspace.callbacks is not None and workspace.callbacks.public_url is not None
        ]
        names = filter(None, (urlsplit(url).hostname for url in urls))
        # Where proxies are in front it is theirs that the workspaces see.
        yield (
            "callbacks",
            callbacks.tls,
            [] if callbacks.trusted_proxies else list(dict.fromkeys(names)),
        )


def _examined(
    section: str, settings: TlsSettings, names: list[str], now: datetime
) -> CertificateFinding:
    try:
        pair = load_pair(settings, section=f"{section}.tls", needs_client=False)
        missing = missing_names(pair, names)
    except ConfigurationError as exc:
        key, value, hint = exc.problems[0].split(": ", 2)
        return CertificateFinding(section=section, problem=Problem(key=key, value=value, hint=hint))
    hints = [hint for hint in (_of_time(pair, now), _of_names(missing)) if hint is not None]
    return CertificateFinding(
        section=section,
        doubts=tuple(
            Problem(
                key=f"{section}.tls.certificate_file",
                value=shown(settings.certificate_file),
                hint=hint,
            )
            for hint in hints
        ),
        expires_at=pair.expires_at,
    )


def _of_time(pair: ServedPair, now: datetime) -> str | None:
    if now < pair.valid_from:
        return (
            f"is not valid before {pair.valid_from:%Y-%m-%d %H:%M} UTC, and clients refuse it; "
            "see that the clock of this machine is right"
        )
    if pair.expires_at <= now:
        return (
            f"expired on {pair.expires_at:%Y-%m-%d %H:%M} UTC, and clients refuse it; "
            "replace both files, no restart is needed"
        )
    if pair.expires_at - now < _SOON:
        return (
            f"expires on {pair.expires_at:%Y-%m-%d %H:%M} UTC, {(pair.expires_at - now).days} days "
            "from now; replace both files before, no restart is needed"
        )
    return None


def _of_names(missing: list[str]) -> str | None:
    if not missing:
        return None
    return (
        f"is not for {', '.join(missing)}, and clients that call that refuse it; add the name to "
        "the certificate, or name the proxies that have one in trusted_proxies"
    )
