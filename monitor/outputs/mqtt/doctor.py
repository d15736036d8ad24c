"""Checks whether the broker accepts what the daemon publishes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial

import msgspec
from msgspec import Struct

from monitor.model.checks import Check, CheckLine, ask_all, failed, is_failed, ok, warning
from monitor.model.clock import Clock
from monitor.model.errors import OutputError, OutputUnavailableError
from monitor.model.outside import is_loopback
from monitor.outputs.certificates import ANSWER_SECONDS, Endpoint, check_certificate
from monitor.outputs.mqtt.link import MqttLink, OutgoingMessage
from monitor.outputs.mqtt.link_opening import VERSIONS, open_link, tls_context
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.outputs.mqtt.topics import Topics

_CONNECTION, _TLS, _PUBLISHING = "mqtt connection", "mqtt TLS", "mqtt publishing"


class BrokerProbe(Struct, frozen=True, kw_only=True):
    """The result. ``refusal`` is why the message was not accepted; None where it was."""

    version: str
    topic: str
    refusal: str | None
    tells_refusals: bool  # an older version acknowledges also what it drops


async def probe_broker(settings: MqttSettings, *, clock: Clock) -> BrokerProbe:
    """Connect and publish one message that is not retained, below the daemon's own topics.

    Raises:
        OutputUnavailableError: no connection in time, or it was refused.
    """
    topic = Topics(prefix=settings.prefix, instance=settings.instance).bridge_doctor
    # Under the daemon's own client id the broker would disconnect a running daemon.
    probe = msgspec.structs.replace(settings, instance=f"{settings.instance}-doctor")
    link = await open_link(
        probe,
        versions=VERSIONS[settings.protocol],
        clock=clock,
        will=None,
        on_refused=lambda _version, _refusal: None,
    )
    try:
        refusal = await _publish(link, topic, settings.acknowledge_timeout_seconds)
    finally:
        await link.close()
    return BrokerProbe(
        version="5" if link.is_version_5 else "3.1.1",
        topic=topic,
        refusal=refusal,
        tells_refusals=link.is_version_5,
    )


async def _publish(link: MqttLink, topic: str, timeout_seconds: float) -> str | None:
    try:
        async with asyncio.timeout(timeout_seconds):
            await link.send(
                OutgoingMessage(topic=topic, payload=b"{}", content_type="application/json")
            )
    except TimeoutError:
        return "the broker did not acknowledge in time"
    except OutputError as exc:
        return str(exc)
    return None


async def check_broker(settings: MqttSettings, *, clock: Clock) -> Sequence[CheckLine]:
    """Connect with the version, credentials and TLS of the settings, and publish one message."""
    tls, connecting = await ask_all(
        (
            Check(_TLS, partial(_check_tls, settings, now=clock.now())),
            Check(_CONNECTION, partial(_try, settings, clock=clock)),
        )
    )
    if is_failed(tls):
        return tls  # which is also why there is no connection
    connection, *publishing = connecting
    return [connection, *tls, *publishing]


async def _check_tls(settings: MqttSettings, *, now: datetime) -> list[CheckLine]:
    broker = settings.broker
    if broker.is_encrypted:
        try:
            context = await asyncio.to_thread(tls_context, settings)
        except OutputUnavailableError as exc:
            return [failed(_TLS, str(exc), "correct the files that [mqtt] names")]
        endpoint = Endpoint(host=broker.host, port=broker.port, settings="mqtt")
        return await check_certificate(_TLS, endpoint, context, now=now)
    if is_loopback(broker.host):
        return [ok(_TLS, "not used, and not needed on this machine")]
    return [
        warning(
            _TLS,
            f"{broker} is connected to without TLS: messages and credentials travel in the clear",
            "enable TLS at the broker and write mqtts:// in mqtt.url",
        )
    ]


async def _try(settings: MqttSettings, *, clock: Clock) -> list[CheckLine]:
    hasty = msgspec.structs.replace(
        settings,
        connect_timeout_seconds=min(settings.connect_timeout_seconds, ANSWER_SECONDS),
        acknowledge_timeout_seconds=min(settings.acknowledge_timeout_seconds, ANSWER_SECONDS),
    )
    try:
        found = await probe_broker(hasty, clock=clock)
    except OutputUnavailableError as exc:
        return [
            failed(
                _CONNECTION,
                f"{settings.broker} was not connected to: {exc}",
                "see that the broker runs; check url, username, password and protocol in [mqtt]",
            )
        ]
    who = "anonymously" if settings.username is None else f"as {settings.username}"
    connected = f"{settings.broker} accepted us {who}, with MQTT {found.version}"
    return [ok(_CONNECTION, connected), _published(found, settings)]


def _published(found: BrokerProbe, settings: MqttSettings) -> CheckLine:
    if found.refusal is not None:
        return failed(
            _PUBLISHING,
            f"{found.topic} was refused: {found.refusal}",
            f"give that user the right to write to {settings.prefix}/#",
        )
    doubt = "" if found.tells_refusals else " (MQTT 3.1.1 does not show whether it was dropped)"
    return ok(_PUBLISHING, f"a message to {found.topic} was acknowledged{doubt}")
