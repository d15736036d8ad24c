"""Checks a receiver's TLS: whether its certificate is trusted, and until when."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from urllib.parse import urlsplit

from msgspec import Struct

from monitor.model.checks import CheckLine, failed, ok, warning
from monitor.model.clock import Clock
from monitor.model.errors import OutputUnavailableError
from monitor.model.outside import is_loopback
from monitor.outputs.http import tls_context
from monitor.outputs.settings import ReceiverSettings

ANSWER_SECONDS = 5.0  # for a receiver that is examined

_SOON_DAYS = 14
_HANDSHAKE_SECONDS = 10.0


class Endpoint(Struct, frozen=True, kw_only=True):
    """A server that speaks TLS. ``settings`` is where its keys stand in the configuration."""

    host: str
    port: int
    settings: str


async def check_certificate(
    subject: str, endpoint: Endpoint, context: ssl.SSLContext, *, now: datetime
) -> list[CheckLine]:
    """Make a TLS handshake with the server and check its certificate.

    No line where there is no connection: the check that needs it reports that.
    """
    if context.verify_mode is ssl.CERT_NONE:
        return [
            warning(
                subject,
                "the certificate is not verified: anybody in between can read and answer",
                f"set {endpoint.settings}.verify_tls = true, with ca_file for a private authority",
            )
        ]
    try:
        async with asyncio.timeout(_HANDSHAKE_SECONDS):
            valid_until = await _valid_until(endpoint, context)
    except ssl.SSLCertVerificationError as exc:
        return [
            failed(
                subject,
                f"the certificate is not trusted: {exc.verify_message}",
                f"renew it, correct {endpoint.settings}.url, or name its authority as ca_file",
            )
        ]
    except ssl.SSLError as exc:
        reason = (exc.reason or str(exc)).replace("_", " ").lower()
        return [failed(subject, f"no TLS there: {reason}", f"correct {endpoint.settings}.url")]
    except OSError:  # a timeout, too
        return []
    days = (valid_until - now).days
    found = f"the certificate is trusted and valid until {valid_until:%Y-%m-%d}"
    if days < _SOON_DAYS:
        return [warning(subject, f"{found}, {days} days from now", "renew it before that day")]
    return [ok(subject, found)]


async def check_tls(
    subject: str, url: str, settings: ReceiverSettings, *, clock: Clock
) -> list[CheckLine]:
    """Return the line about TLS of a receiver; ``subject`` begins with the name of its section."""
    parts = urlsplit(url)
    host, named = parts.hostname or "", f"{subject} TLS"
    section = subject.partition(" ")[0]
    if parts.scheme == "https":
        try:
            context = await asyncio.to_thread(tls_context, settings)
        except OutputUnavailableError as exc:
            return [failed(named, str(exc), f"correct the file that [{section}] names")]
        endpoint = Endpoint(host=host, port=parts.port or 443, settings=section)
        return await check_certificate(named, endpoint, context, now=clock.now())
    if is_loopback(host):
        return [ok(named, "not used, and not needed on this machine")]
    return [
        warning(
            named,
            "alerts travel in the clear, credentials included",
            f"enable TLS at the receiver and write https:// in [{section}]",
        )
    ]


async def _valid_until(endpoint: Endpoint, context: ssl.SSLContext) -> datetime:
    _, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)
    try:
        certificate = writer.get_extra_info("peercert")
    finally:
        writer.transport.abort()
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)
