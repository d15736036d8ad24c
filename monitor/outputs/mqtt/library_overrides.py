"""Everything that overrides or uses private members of aiomqtt and paho stands in this file.

It was written for the versions in `WRITTEN_FOR`. On any other version a test fails until someone
has compared this file with the new sources and has set the version here.

Why private members: aiomqtt hides the reason for which a connection ended, registers sockets with
the loop after they may have been closed, drops a cancellation before Python 3.12, and cannot hang
up without a DISCONNECT. paho wakes the loop for each packet that it writes, reads each packet with
four system calls, builds tables for each PUBLISH and PUBACK, and takes packets of any length and
kind; here PUBLISH and PUBACK pass it by, as bytes, and it gets the rest whole, within limits.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import aiomqtt
from aiomqtt.client import ProtocolVersion
from aiomqtt.types import PahoSocket
from paho.mqtt import subscribeoptions
from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY as _NOT_VERSION_5
from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import MessageType
from paho.mqtt.exception import MQTTException
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from monitor.model.lease_check import LEASE_UNCERTAIN, MaySend
from monitor.outputs.mqtt.incoming_packets import (
    LONGEST_PACKET_BYTES,
    packet_end,
    refuse_unasked,
)
from monitor.outputs.mqtt.link_ends import LinkEnd, end_of
from monitor.outputs.mqtt.packets import KIND_MASK, PUBACK, read_puback
from monitor.outputs.mqtt.settings import MqttSettings

T = TypeVar("T")

WRITTEN_FOR = {"aiomqtt": "2.5.1", "paho-mqtt": "2.2.0"}

# All that the two raise while they connect, read and write. LookupError and struct.error come from
# packets that are not MQTT.
LIBRARY_ERRORS: tuple[type[Exception], ...] = (
    aiomqtt.MqttError,
    MQTTException,
    subscribeoptions.MQTTException,
    OSError,
    ValueError,
    LookupError,
    struct.error,
)
# The reasons of our errors carry what paho would log, once and in our form.
_SILENT = logging.Logger("paho", logging.CRITICAL + 1)  # noqa: LOG001 - not to be found by name
_RECEIVE_BYTES = 65_536  # at once


class BrokerClient(aiomqtt.Client):
    """aiomqtt's client that reports each acknowledgement and the end of the connection.

    It is used for one connection. All methods and callbacks run on the event loop, but for
    `_on_socket_open`, which runs in the thread that connects.
    """

    def __init__(
        self,
        settings: MqttSettings,
        *,
        version: ProtocolVersion,
        will: aiomqtt.Will | None,
        tls: ssl.SSLContext | None,
        may_send: MaySend | None,
        on_accepted: Callable[[Properties | None], None],
        on_answer: Callable[[int, int], None],
        on_end: Callable[[LinkEnd], None],
        on_message: Callable[[str], None],
    ) -> None:
        """Call ``on_answer`` with message id and reason code of each PUBACK.

        ``may_send`` is asked right before packets are written, also in the thread that connects;
        where it says no, the connection ends. ``on_message`` gets the topic of what was subscribed
        to, ``on_accepted`` the properties with which the broker accepts the connection.
        """
        is_version_5 = version is ProtocolVersion.V5
        super().__init__(
            settings.broker.host,
            settings.broker.port,
            username=settings.username,
            password=None if settings.password is None else settings.password.reveal(),
            identifier=settings.instance,
            protocol=version,
            will=will,
            # The broker keeps nothing for us: the log knows what to send again.
            clean_session=None if is_version_5 else True,
            clean_start=True if is_version_5 else _NOT_VERSION_5,
            properties=_limits() if is_version_5 else None,
            timeout=2 * settings.connect_timeout_seconds,  # `MqttLink.open` has a limit of its own
            keepalive=settings.keepalive_seconds,
            max_queued_incoming_messages=1,  # `_on_message` queues nothing
            tls_context=tls,
            logger=_SILENT,
            # Small messages leave at once, instead of waiting for the answer to the one before.
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        )
        # The caller may be gone when it fails; asyncio would log the unread exception.
        self._connected.add_done_callback(_retrieve)
        self._client._sock_recv = self._receive  # type: ignore[method-assign]  # noqa: SLF001 - so that paho reads what we have received
        self._client.connect_timeout = settings.connect_timeout_seconds
        self._may_send = may_send
        self._on_accepted = on_accepted
        self._on_answer = on_answer
        self._on_end = on_end
        self._on_foreign_message = on_message
        self._is_abandoned = False
        self._unsent: list[bytes] = []  # packets of this turn of the loop
        self._received = b""  # and not taken so far
        self._packet = b""  # of it, what paho reads now
        self._has_ended = False  # nothing more will be received

    @property
    def has_socket(self) -> bool:
        """True once a TCP connection exists."""
        return self._client.socket() is not None

    async def connect(self) -> None:
        """Return when the broker has accepted the connection.

        A call that is cancelled leaves a thread that still connects; `drop_connection` makes it
        drop its socket.
        """
        await self.__aenter__()
        # aiomqtt notices some failures of the socket only in this future.
        self._disconnected.add_done_callback(self._notice_disconnected)

    async def disconnect(self) -> None:
        """Send DISCONNECT, so that the broker does not publish the last will."""
        await self.__aexit__(None, None, None)

    def drop_connection(self) -> None:
        """Close the socket without a DISCONNECT, which would cancel the last will."""
        self._is_abandoned = True
        self._client._sock_close()  # noqa: SLF001 - paho has no other way to hang up

    def new_message_id(self) -> int:
        """Return an id that no packet of this connection had for a long time."""
        return self._client._mid_generate()  # noqa: SLF001 - SUBSCRIBE takes its ids there too

    def send_packet(self, packet: bytes) -> bool:
        """Send a PUBLISH packet with all others of this turn of the loop; False without a socket.

        ``on_answer`` gets its message id.
        """
        if self._client.socket() is None:
            return False
        if not self._unsent:
            self._loop.call_soon(self._send_packets)
        self._unsent.append(packet)
        return True

    async def watch(self, filters: Iterable[str]) -> bool:
        """Subscribe to what others publish there from now on; False where that is refused.

        Raises:
            aiomqtt.MqttError: the broker did not answer.
        """
        options = SubscribeOptions(
            qos=0,
            noLocal=True,
            retainAsPublished=True,
            retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND,
        )
        answers = await self.subscribe([(topic_filter, options) for topic_filter in filters])
        return not any(isinstance(answer, ReasonCode) and answer.is_failure for answer in answers)

    def ping_if_due(self) -> None:
        """Send a PING where the keepalive requires it; to be called every second."""
        self._client.loop_misc()

    # --- what aiomqtt calls ---

    async def _wait_for(self, fut: Awaitable[T], timeout: float | None) -> T:  # noqa: ASYNC109 - the signature is aiomqtt's
        # Before Python 3.12 `asyncio.wait_for` drops a cancellation that arrives in the same turn
        # of the loop as the result; stopping the output would never end.
        result = asyncio.ensure_future(fut)
        try:
            await asyncio.wait((result,), timeout=self.timeout if timeout is None else timeout)
            if not result.done():
                raise aiomqtt.MqttError("the broker did not answer in time")
            return result.result()
        finally:
            # Also where it is done: a cancelled call retrieves no failure, which asyncio would log.
            result.cancel()

    # --- what paho calls ---

    # aiomqtt registers sockets with the loop later and by number. By then the socket may be
    # closed and its number another socket's, so each registration here compares first.

    def _on_socket_open(
        self,
        client: Client,  # noqa: ARG002 - the signature is paho's
        userdata: Any,  # noqa: ARG002 - the signature is paho's
        sock: PahoSocket,
    ) -> None:
        # Called in the thread that connects, which cannot be stopped once the wait was given up.
        if self._is_abandoned:
            # By paho, on the loop: a socket that it believes to be open is watched and written to.
            self._loop.call_soon_threadsafe(self.drop_connection)
            return
        if not self._is_allowed:
            # CONNECT, which follows, would end the session of another client with our id.
            sock.shutdown(socket.SHUT_RDWR)
        self._loop.call_soon_threadsafe(self._start_reading, sock)

    def _start_reading(self, sock: PahoSocket) -> None:
        present = self._client.socket()
        if present is not None and present is sock:
            self._loop.add_reader(present.fileno(), self._read, present)

    def _read(self, sock: PahoSocket) -> None:
        try:
            self._read_once()
            # Decrypted bytes that were not taken yet do not make the socket readable again.
            while isinstance(sock, ssl.SSLSocket) and sock.fileno() >= 0 and sock.pending():
                self._read_once()
        except LIBRARY_ERRORS as exc:
            self._break_off(exc)

    def _read_once(self) -> None:
        """Receive what has arrived, take the PUBACKs, and let paho read the other packets."""
        try:
            arrived = Client._sock_recv(self._client, _RECEIVE_BYTES)  # noqa: SLF001 - knows TLS
        except BlockingIOError:
            return
        except OSError:
            arrived = b""  # paho, too, takes it for the end
        if not arrived:
            self._packet, self._has_ended = b"", True
            self._client.loop_read()
            return
        self._received += arrived
        start, length = 0, len(self._received)
        while start < length and self._client.socket() is not None:
            is_puback = self._received[start] & KIND_MASK == PUBACK
            end = self._take_puback(start) if is_puback else self._hand_over(start)
            if end is None:
                break
            start = end
        self._received = self._received[start:]

    def _take_puback(self, start: int) -> int | None:
        puback = read_puback(self._received, start)
        if puback is None:
            return None
        self._on_answer(puback.message_id, puback.code)
        return puback.end

    def _hand_over(self, start: int) -> int | None:
        """Let paho read one packet; None while bytes of it are missing."""
        received, end = self._received, packet_end(self._received, start)
        is_pinged = bool(self._client._ping_t)  # noqa: SLF001 - has no other way
        refuse_unasked(received[start], is_accepted=self._connected.done(), is_pinged=is_pinged)
        if end is None or end > len(received):
            return None
        self._packet = received[start:end]
        self._client.loop_read()
        return end

    def _receive(self, bufsize: int) -> bytes:
        """Return what paho asks its socket for."""
        taken, self._packet = self._packet[:bufsize], self._packet[bufsize:]
        if not taken and not self._has_ended:
            raise BlockingIOError
        return taken

    def _on_socket_register_write(
        self,
        client: Client,  # noqa: ARG002 - the signature is paho's
        userdata: Any,  # noqa: ARG002 - the signature is paho's
        sock: PahoSocket,
    ) -> None:
        self._loop.call_soon_threadsafe(self._start_writing, sock)

    def _start_writing(self, sock: PahoSocket) -> None:
        present = self._client.socket()
        # What was written meanwhile would leave a writer that is never removed.
        if present is not None and present is sock and self._client.want_write():
            self._loop.add_writer(present.fileno(), self._write)

    def _send_packets(self) -> None:
        packet = b"".join(self._unsent)
        self._unsent.clear()
        # One of paho's packets for all of ours: it knows how to go on where the socket is full.
        self._client._out_packet.append(  # noqa: SLF001 - its own way in wakes the loop each time
            {
                "command": MessageType.PUBLISH,
                "mid": 0,
                "qos": 1,
                "pos": 0,
                "to_process": len(packet),
                "packet": packet,
                "info": None,
            }
        )
        self._write()

    @property
    def _is_allowed(self) -> bool:
        return self._may_send is None or self._may_send()

    def _write(self) -> None:
        if not self._is_allowed:
            self._end(LEASE_UNCERTAIN)
            return
        try:
            self._client.loop_write()
        except LIBRARY_ERRORS as exc:
            self._break_off(exc)

    def _break_off(self, exc: Exception) -> None:
        is_socket = isinstance(exc, OSError)
        self._end(str(exc) if is_socket else f"the broker sent no valid MQTT: {exc!r}")

    def _end(self, reason: str) -> None:
        self.drop_connection()
        if self._connected.done():
            self._on_end(LinkEnd(reason))
        else:
            self._connected.set_exception(aiomqtt.MqttError(reason))

    def _on_connect(
        self,
        client: Client,
        userdata: Any,
        flags: ConnectFlags,
        reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:
        self._on_accepted(properties)
        super()._on_connect(client, userdata, flags, reason_code, properties)

    def _on_message(
        self,
        client: Client,  # noqa: ARG002 - the signature is paho's
        userdata: Any,  # noqa: ARG002 - the signature is paho's
        message: MQTTMessage,
    ) -> None:
        self._on_foreign_message(message.topic)

    def _on_disconnect(
        self,
        client: Client,
        userdata: Any,
        flags: DisconnectFlags,
        reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:
        if self._is_abandoned:
            return
        if not self._connected.done():
            # Without this an attempt that the broker cuts short would last until its time-out.
            self._connected.set_exception(
                aiomqtt.MqttCodeError(None, "closed before it was accepted")
            )
            return
        super()._on_disconnect(client, userdata, flags, reason_code, properties)
        if self._disconnected.done() and not self._disconnected.cancelled():
            # aiomqtt may replace this future, and asyncio would log the unread exception.
            self._disconnected.exception()
        self._on_end(end_of(flags, reason_code))

    def _notice_disconnected(self, disconnected: Any) -> None:
        failure = None if disconnected.cancelled() else disconnected.exception()
        self._on_end(LinkEnd("closed" if failure is None else str(failure)))


def _limits() -> Properties:
    limits = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho
    limits.MaximumPacketSize = LONGEST_PACKET_BYTES
    return limits


def _retrieve(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()
