"""Checks whether the broker accepts what the daemon publishes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial

import msgspec

from monitor.model.checks import Check, CheckLine, ask_all, failed, is_failed, ok, warning
from monitor.model.clock import Clock
from monitor.model.errors import OutputUnavailableError
from monitor.model.outside import is_loopback
from monitor.outputs.certificates import ANSWER_SECONDS, Endpoint, check_certificate
from monitor.outputs.mqtt.broker_probe import BrokerProbe, probe_broker
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.outputs.mqtt.tls import tls_context

_CONNECTION, _TLS, _PUBLISHING = "mqtt connection", "mqtt TLS", "mqtt publishing"


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
