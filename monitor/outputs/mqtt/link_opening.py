"""Opens a link in the first version of MQTT that the broker speaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from aiomqtt.client import ProtocolVersion

from monitor.model.clock import Clock
from monitor.model.errors import OutputUnavailableError
from monitor.outputs.leases import MaySend
from monitor.outputs.mqtt.link import MqttLink, OutgoingMessage, VersionRefusedError
from monitor.outputs.mqtt.settings import MqttProtocol, MqttSettings
from monitor.outputs.mqtt.tls import tls_context

VERSIONS: dict[MqttProtocol, tuple[ProtocolVersion, ...]] = {
    MqttProtocol.AUTO: (ProtocolVersion.V5, ProtocolVersion.V311),
    MqttProtocol.V5: (ProtocolVersion.V5,),
    MqttProtocol.V311: (ProtocolVersion.V311,),
}


async def open_link(
    settings: MqttSettings,
    *,
    versions: Sequence[ProtocolVersion],
    clock: Clock,
    will: OutgoingMessage | None,
    may_send: MaySend | None = None,
    on_refused: Callable[[ProtocolVersion, VersionRefusedError], None],
) -> MqttLink:
    """Return a link that the broker has accepted; ``on_refused`` gets each version's refusal.

    Raises:
        OutputUnavailableError: no connection in time, or it was refused.
    """
    tls = None
    if settings.broker.is_encrypted:
        # Read again each time, so that a renewed certificate needs no restart.
        tls = await asyncio.to_thread(tls_context, settings)
    refusal = OutputUnavailableError("no version of MQTT to try")
    for version in versions:
        link = MqttLink(
            settings, clock=clock, version=version, will=will, tls=tls, may_send=may_send
        )
        try:
            await link.open()
        except VersionRefusedError as exc:
            refusal = exc
            on_refused(version, exc)
        else:
            return link
    raise refusal
