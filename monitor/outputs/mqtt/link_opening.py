"""Opens a link in the first version of MQTT that the broker speaks, by TLS for `mqtts`."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence

from aiomqtt.client import ProtocolVersion

from monitor.model.clock import Clock
from monitor.model.errors import OutputUnavailableError
from monitor.model.lease_check import MaySend
from monitor.outputs.mqtt.link import MqttLink, OutgoingMessage, VersionRefusedError
from monitor.outputs.mqtt.settings import MqttProtocol, MqttSettings

VERSIONS: dict[MqttProtocol, tuple[ProtocolVersion, ...]] = {
    MqttProtocol.AUTO: (ProtocolVersion.V5, ProtocolVersion.V311),
    MqttProtocol.V5: (ProtocolVersion.V5,),
    MqttProtocol.V311: (ProtocolVersion.V311,),
}


class _TlsSocket(ssl.SSLSocket):
    """Closes itself when the handshake fails, which paho leaves to the garbage collector."""

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - ssl's signature
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def tls_file_problems(settings: MqttSettings) -> list[str]:
    """Return a sentence ``key: problem`` if the files of `mqtts` cannot be used. Reads them."""
    if not settings.broker.is_encrypted:
        return []
    try:
        tls_context(settings)
    except OutputUnavailableError as exc:
        return [f"{'certificate_file' if settings.certificate_file else 'ca_file'}: {exc}"]
    return []


def tls_context(settings: MqttSettings) -> ssl.SSLContext:
    """Return how `mqtts` is spoken. Reads files, so it belongs off the event loop.

    Raises:
        OutputUnavailableError: a file is missing or is not what it should be.
    """
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.certificate_file is not None:
            # An encrypted key would prompt at the terminal; the empty password makes it fail.
            context.load_cert_chain(
                settings.certificate_file, settings.key_file, password=lambda: ""
            )
    except (OSError, ssl.SSLError) as exc:
        raise OutputUnavailableError(f"TLS files cannot be used: {exc}") from exc
    context.sslsocket_class = _TlsSocket
    if not settings.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


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
