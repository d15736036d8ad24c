"""Publishes one message to a broker, as the daemon would, to see whether it is accepted."""

from __future__ import annotations

import asyncio

import msgspec
from msgspec import Struct

from monitor.model.clock import Clock
from monitor.model.errors import OutputError
from monitor.outputs.mqtt.link import MqttLink, OutgoingMessage
from monitor.outputs.mqtt.link_opening import VERSIONS, open_link
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.outputs.mqtt.topics import Topics


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
