"""Whether Alertmanagers and the webhook's receiver can be notified of alerts."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import msgspec

from monitor.cli.doctor_checks.certificates import Endpoint, check_certificate
from monitor.cli.doctor_checks.lines import (
    CheckLine,
    bounded,
    failed,
    is_failed,
    ok,
    together,
    warning,
)
from monitor.config.checks import is_loopback
from monitor.model.clock import Clock
from monitor.model.errors import OutputError, OutputUnavailableError
from monitor.outputs.alertmanager.output import try_alertmanager
from monitor.outputs.alertmanager.settings import AlertmanagerSettings
from monitor.outputs.http import tls_context
from monitor.outputs.settings import ReceiverSettings, receiver_of
from monitor.outputs.webhook.settings import WebhookSettings

_ANSWER_SECONDS = 5.0
_WEBHOOK = "webhook"


async def check_alertmanagers(settings: AlertmanagerSettings, *, clock: Clock) -> list[CheckLine]:
    """Post an empty list to each, with the credentials and TLS of the settings."""
    results = await together(
        {
            # Two paths of one host have one subject.
            f"{_subject(url)} ({number})": bounded(
                _subject(url), _check_alertmanager(url, settings, clock=clock)
            )
            for number, url in enumerate(settings.urls, 1)
        }
    )
    return [line for lines in results for line in lines]


async def check_webhook(settings: WebhookSettings, *, clock: Clock) -> list[CheckLine]:
    """Connect, and post nothing: a receiver would take any post for an alert."""
    tls = await _check_tls(_WEBHOOK, settings.url, settings, clock=clock)
    if is_failed(tls):
        return tls
    parts = urlsplit(settings.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except OSError as exc:
        hint = "see that the receiver runs, and correct url in [webhook]"
        return [
            failed(_WEBHOOK, f"no connection: {str(exc) or 'no answer in time'}", hint),
            *tls,
        ]
    writer.close()
    return [ok(_WEBHOOK, "accepts connections; nothing was posted"), *tls]


def _subject(url: str) -> str:
    return f"alertmanager {receiver_of(url)}"


async def _check_alertmanager(
    url: str, settings: AlertmanagerSettings, *, clock: Clock
) -> list[CheckLine]:
    subject = _subject(url)
    hasty = msgspec.structs.replace(
        settings, timeout_seconds=min(settings.timeout_seconds, _ANSWER_SECONDS)
    )
    tls = await _check_tls(subject, url, settings, clock=clock)
    if is_failed(tls):
        return tls  # which is also why no alert is accepted
    try:
        ahead = await try_alertmanager(url, settings=hasty, clock=clock)
    except OutputError as exc:
        hint = "see that it runs, and check urls, username, password and token in [alertmanager]"
        return [failed(subject, f"accepts no alerts: {exc}", hint), *tls]
    clocks = (
        f"; its clock differs by {ahead:+.0f} s from ours, which is allowed for" if ahead else ""
    )
    return [ok(subject, f"accepted an empty list of alerts{clocks}"), *tls]


async def _check_tls(
    subject: str, url: str, settings: ReceiverSettings, *, clock: Clock
) -> list[CheckLine]:
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
