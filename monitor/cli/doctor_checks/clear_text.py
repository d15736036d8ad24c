"""Finds what others on the network could read, and listeners whose certificate clients refuse."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import datetime
from urllib.parse import urlsplit

from monitor.cli.certificate_files import CertificateFinding, examine_certificates
from monitor.config import Configuration
from monitor.listening.settings import AddressSettings
from monitor.model.checks import CheckLine, failed, ok, warning
from monitor.model.outside import is_loopback
from monitor.outputs.notify.settings import NotifySettings

# As Apprise reads it in the URL of any service.
_UNVERIFIED = re.compile(
    r"[?&]verify=(?:no|n|false|f|0|off|never|disabled?|deny)(?:&|$)", re.IGNORECASE
)


async def check_listeners(configuration: Configuration, *, now: datetime) -> list[CheckLine]:
    """Return a line for each listener with TLS, and a warning for what travels without.

    Workspaces, brokers and receivers have a line of their own for that.
    """
    findings = await asyncio.to_thread(examine_certificates, configuration, now=now)
    lines = [line for finding in findings for line in _certificate_lines(finding)]
    return [*lines, *_in_clear_text(configuration), *_unverified_channels(configuration)]


def _certificate_lines(finding: CertificateFinding) -> Iterator[CheckLine]:
    subject = f"{finding.section} TLS"
    if (problem := finding.problem) is not None:
        found, _, hint = problem.hint.partition("; ")
        yield failed(subject, f"{problem.key}: {problem.value}: {found}", hint or None)
        return
    if not finding.doubts:
        yield ok(subject, f"{finding.summary}, for every name that is configured")
        return
    parts = [doubt.hint.rpartition("; ") for doubt in finding.doubts]
    found = "; it ".join(found for found, _, _ in parts)
    yield warning(
        subject, f"{finding.doubts[0].value} {found}", "; ".join(hint for _, _, hint in parts)
    )


def _in_clear_text(configuration: Configuration) -> Iterator[CheckLine]:
    server, callbacks = configuration.server, configuration.callbacks
    sent = "its token or password travels" if server.has_auth else "all that clients ask travels"
    yield from _of_listener("server", server, sent)
    if callbacks is not None:
        yield from _of_listener("callbacks", callbacks, "the secret of callbacks travels")
    for workspace in configuration.workspaces:
        url = workspace.callbacks.public_url if workspace.callbacks is not None else None
        if url is not None and urlsplit(url).scheme == "http" and not _is_local(url):
            found = f"{url} is called without TLS: the secret of callbacks travels in the clear"
            hint = "write https:// in public_url, with [callbacks.tls] or a reverse proxy for TLS"
            yield warning(f"{workspace.name} public_url", found, hint)


def _unverified_channels(configuration: Configuration) -> Iterator[CheckLine]:
    """Yield a warning for each channel whose URL says that no certificate is verified."""
    notify = configuration.output(NotifySettings)
    for channel in () if notify is None else notify.channels:
        if _UNVERIFIED.search(channel.url.reveal()):
            found = "certificates are not verified: others in between can read and answer"
            yield warning(f"notify {channel.name} TLS", found, "remove verify= from its url")


def _of_listener(section: str, settings: AddressSettings, sent: str) -> Iterator[CheckLine]:
    if settings.tls is not None or is_loopback(settings.host):
        return
    found = f"{settings.listen} can be reached by others: {sent} in the clear"
    if settings.trusted_proxies:
        # Who trusts proxies is behind them; but the port is open to all.
        found += ", between the proxies and it, and from clients that call it past them"
    hint = f"add [{section}.tls], or listen on 127.0.0.1 behind a reverse proxy with TLS"
    yield warning(f"{section} TLS", found, hint)


def _is_local(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")
