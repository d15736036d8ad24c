"""One connection to a broker, with an answer for every message.

aiomqtt reports a message that the broker denied as published, lets a message wait for its own
time-out when the link is gone, and slows down with the number in flight. So this subclass keeps
its own table of answers by message id.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import deque
from typing import Any

import aiomqtt
from aiomqtt.client import ProtocolVersion
from aiomqtt.types import PahoSocket
from msgspec import Struct
from paho.mqtt.client import (
    CONNACK_REFUSED_PROTOCOL_VERSION,
    MQTT_CLEAN_START_FIRST_ONLY,
    MQTT_ERR_SUCCESS,
    Client,
    ConnectFlags,
    DisconnectFlags,
    error_string,
)
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from monitor.model.clock import Clock
from monitor.model.errors import (
    OutputConnectionLostError,
    OutputRefusedError,
    OutputUnavailableError,
)
from monitor.outputs.mqtt.properties import PackedProperties, pack
from monitor.outputs.settings import MqttSettings

# Reason codes of a PUBACK after which the same message will be refused again.
_FINAL_REASONS = {
    0x87: "not authorized",
    0x90: "topic name invalid",
    0x95: "packet too large",
    0x99: "payload format invalid",
}
_FAILURE_FROM = 0x80  # reason codes below tell success, such as "no matching subscribers"
_UNSUPPORTED_VERSION = 0x84
# What paho would log, the reasons of our errors tell, once and in our form.
_SILENT = logging.Logger("paho", logging.CRITICAL + 1)  # noqa: LOG001 - not to be found by name
_INFLIGHT_DEFAULT = 65_535  # what the standard says where a broker states no limit
_HEADER_BYTES = 16  # of a packet besides topic, properties and payload, at most


class VersionRefusedError(OutputUnavailableError):
    """The broker does not speak the version of MQTT that was asked for.

    ``is_certain`` is False where the broker hung up, or was silent, instead of saying so.
    """

    def __init__(self, message: str, *, is_certain: bool) -> None:
        super().__init__(message)
        self.is_certain = is_certain


class Outgoing(Struct, frozen=True, kw_only=True, gc=False):
    """One message on its way. The rest of the fields is told by MQTT 5 only."""

    topic: str
    payload: bytes
    retain: bool = False
    content_type: str | None = None
    is_text: bool = True
    expiry_seconds: int | None = None
    user_properties: tuple[tuple[str, str], ...] = ()


class MqttLink(aiomqtt.Client):
    """A connection that is used once: made, used, lost or closed."""

    def __init__(
        self,
        settings: MqttSettings,
        *,
        clock: Clock,
        version: ProtocolVersion,
        will: Outgoing | None,
        tls: ssl.SSLContext | None,
    ) -> None:
        broker = settings.broker
        super().__init__(
            broker.host,
            broker.port,
            username=settings.username,
            password=None if settings.password is None else settings.password.reveal(),
            identifier=settings.instance,
            protocol=version,
            will=None
            if will is None
            else aiomqtt.Will(will.topic, will.payload, qos=1, retain=True),
            # Nothing is kept in the broker for us: what to send again is known from the log.
            clean_session=True if version is ProtocolVersion.V311 else None,
            clean_start=True if version is ProtocolVersion.V5 else MQTT_CLEAN_START_FIRST_ONLY,
            timeout=2 * settings.connect_timeout_seconds,  # `open` has a limit of its own
            keepalive=settings.keepalive_seconds,
            max_queued_incoming_messages=1,  # nothing is subscribed to
            tls_context=tls,
            logger=_SILENT,
            # Small messages leave at once, instead of waiting for the answer to the one before.
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        )
        # The window is kept here; paho's own costs a walk through all messages per answer.
        self._client.max_inflight_messages_set(0)
        self._client.connect_timeout = settings.connect_timeout_seconds
        self.is_version_5 = version is ProtocolVersion.V5
        self._clock = clock
        self._connect_timeout_seconds = settings.connect_timeout_seconds
        self._patience_seconds = settings.acknowledge_timeout_seconds
        self._inflight_limit = _INFLIGHT_DEFAULT
        self._packet_bytes_limit: int | None = None
        self._answers: dict[int, tuple[asyncio.Future[None], float]] = {}
        self._queue_out: deque[tuple[Outgoing, asyncio.Future[None]]] = deque()
        self._is_lost = False
        self._is_abandoned = False
        self.lost: asyncio.Future[str] = self._loop.create_future()  # ends with the reason

    # --- connecting and leaving ---

    async def open(self) -> None:
        """Return when the broker has accepted the connection.

        Raises:
            VersionRefusedError: it does not speak this version.
            OutputUnavailableError: no connection in time, or it was refused.
        """
        try:
            # A limit of our own, because TLS and a name server may each take their time.
            async with asyncio.timeout(self._connect_timeout_seconds):
                await self.__aenter__()
        except TimeoutError as exc:
            failure = self._timeout_error()
            self._abandon()
            raise failure from exc
        except aiomqtt.MqttCodeError as exc:
            self._abandon()
            raise _connect_error(exc) from exc
        except (aiomqtt.MqttError, ssl.SSLError, ValueError) as exc:
            self._abandon()
            raise OutputUnavailableError(str(exc) or "no connection") from exc
        except asyncio.CancelledError:
            self._abandon()
            raise
        # aiomqtt notices some failures of the socket only in this future.
        self._disconnected.add_done_callback(self._notice_loss)

    def _timeout_error(self) -> OutputUnavailableError:
        if self._client.socket() is None:
            return OutputUnavailableError("no connection in time")
        # Some old brokers cannot even read the question and wait for the rest of it.
        return VersionRefusedError("the broker did not answer in time", is_certain=False)

    async def close(self) -> None:
        """Say goodbye to the broker, so that it does not publish the last will."""
        if self._is_lost:
            return
        with contextlib.suppress(aiomqtt.MqttError):
            await self.__aexit__(None, None, None)
        self._abandon()
        self._lose("closed")

    def abort(self, reason: str) -> None:
        """Give the link up. Everything on its way ends as lost at once."""
        self._abandon()
        self._lose(reason)

    def keep(self) -> None:
        """Ping where due, and give the link up when an answer is overdue; to be called often."""
        self._client.loop_misc()
        oldest = next(iter(self._answers.values()), None)
        if oldest and self._clock.monotonic() - oldest[1] > self._patience_seconds:
            self.abort("the broker did not acknowledge in time")

    def _abandon(self) -> None:
        # Without a DISCONNECT, which would take back the last will and may never get through.
        self._is_abandoned = True
        self._client._sock_close()  # noqa: SLF001 - paho has no other way to hang up

    # --- sending ---

    def send(self, message: Outgoing) -> asyncio.Future[None]:
        """Hand a message on; messages leave in the order of the calls.

        The future ends with the broker's acknowledgement or with an `OutputError`.
        """
        answer: asyncio.Future[None] = self._loop.create_future()
        if self._is_lost:
            answer.set_exception(OutputUnavailableError("not connected"))
        elif self._queue_out or len(self._answers) >= self._inflight_limit:
            self._queue_out.append((message, answer))
        else:
            self._publish_now(message, answer)
        return answer

    def _publish_now(self, message: Outgoing, answer: asyncio.Future[None]) -> None:
        properties = self._properties_of(message)
        if (reason := self._too_large(message, properties)) is not None:
            answer.set_exception(OutputRefusedError(reason))
            return
        try:
            info = self._client.publish(
                message.topic, message.payload, 1, message.retain, properties
            )
        except ValueError as exc:
            answer.set_exception(OutputRefusedError(str(exc)))
            return
        if info.rc != MQTT_ERR_SUCCESS:
            answer.set_exception(OutputUnavailableError(error_string(info.rc)))
            return
        self._answers[info.mid] = (answer, self._clock.monotonic())

    def _properties_of(self, message: Outgoing) -> PackedProperties | None:
        if not self.is_version_5:
            return None
        return pack(
            content_type=message.content_type,
            is_text=message.is_text,
            expiry_seconds=message.expiry_seconds,
            user_properties=message.user_properties,
        )

    def _too_large(self, message: Outgoing, properties: PackedProperties | None) -> str | None:
        if self._packet_bytes_limit is None:
            return None
        packed_bytes = 0 if properties is None else len(properties.pack())
        size = _HEADER_BYTES + len(message.topic.encode()) + packed_bytes + len(message.payload)
        if size <= self._packet_bytes_limit:
            return None
        # Sent all the same, it would cost the connection, again and again.
        return f"{size} bytes are more than the {self._packet_bytes_limit} that the broker takes"

    # --- what paho calls ---

    # aiomqtt registers sockets with the loop later and by number. By then the socket may be
    # closed and its number another socket's, so here each registration looks first.

    def _on_socket_open(
        self,
        client: Client,  # noqa: ARG002 - the signature is paho's
        userdata: Any,  # noqa: ARG002 - the signature is paho's
        sock: PahoSocket,
    ) -> None:
        # Called in the thread that connects, which nobody can stop once the wait was given up.
        if self._is_abandoned:
            sock.close()
        else:
            self._loop.call_soon_threadsafe(self._start_reading, sock)

    def _start_reading(self, sock: PahoSocket) -> None:
        present = self._client.socket()
        if present is not None and present is sock:
            self._loop.add_reader(present.fileno(), self._read, present)

    def _read(self, sock: PahoSocket) -> None:
        try:
            self._client.loop_read()
            # Decrypted bytes that paho has not taken yet do not make the socket readable again.
            while isinstance(sock, ssl.SSLSocket) and sock.fileno() >= 0 and sock.pending():
                self._client.loop_read()
        except OSError as exc:
            self.abort(str(exc))

    def _on_socket_register_write(
        self,
        client: Client,  # noqa: ARG002 - the signature is paho's
        userdata: Any,  # noqa: ARG002 - the signature is paho's
        sock: PahoSocket,
    ) -> None:
        self._loop.call_soon_threadsafe(self._start_writing, sock)

    def _start_writing(self, sock: PahoSocket) -> None:
        present = self._client.socket()
        if present is not None and present is sock:
            self._loop.add_writer(present.fileno(), self._write)

    def _write(self) -> None:
        try:
            self._client.loop_write()
        except OSError as exc:
            self.abort(str(exc))

    def _on_connect(
        self,
        client: Client,
        userdata: Any,
        flags: ConnectFlags,
        reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:
        self._inflight_limit = getattr(properties, "ReceiveMaximum", _INFLIGHT_DEFAULT)
        self._packet_bytes_limit = getattr(properties, "MaximumPacketSize", None)
        super()._on_connect(client, userdata, flags, reason_code, properties)

    def _on_publish(
        self,
        client: Client,  # noqa: ARG002 - the signature is paho's
        userdata: Any,  # noqa: ARG002 - the signature is paho's
        mid: int,
        reason_code: ReasonCode,
        properties: Properties,  # noqa: ARG002 - the signature is paho's
    ) -> None:
        answer, _ = self._answers.pop(mid, (None, 0.0))
        if answer is not None and not answer.done():
            _give(answer, reason_code)
        if self._queue_out:
            # Not from inside paho's callback, which holds its locks.
            self._loop.call_soon(self._publish_queued)

    def _publish_queued(self) -> None:
        while self._queue_out and not self._is_lost and len(self._answers) < self._inflight_limit:
            message, answer = self._queue_out.popleft()
            if not answer.done():
                self._publish_now(message, answer)

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
        self._lose(str(reason_code))

    def _notice_loss(self, disconnected: asyncio.Future[None]) -> None:
        failure = None if disconnected.cancelled() else disconnected.exception()
        self._lose("closed" if failure is None else str(failure))

    def _lose(self, reason: str) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        sent = [answer for answer, _ in self._answers.values()]
        queued = [answer for _, answer in self._queue_out]
        self._answers.clear()
        self._queue_out.clear()
        for answer in sent:
            if not answer.done():
                answer.set_exception(OutputConnectionLostError(reason))
        for answer in queued:
            if not answer.done():
                answer.set_exception(OutputUnavailableError(reason))
        self.lost.set_result(reason)


def _give(answer: asyncio.Future[None], reason_code: ReasonCode) -> None:
    code = reason_code.value
    if code < _FAILURE_FROM:
        answer.set_result(None)
    elif code in _FINAL_REASONS:
        answer.set_exception(OutputRefusedError(f"the broker says: {_FINAL_REASONS[code]}"))
    else:
        answer.set_exception(OutputUnavailableError(f"the broker says: {reason_code}"))


def _connect_error(exc: aiomqtt.MqttCodeError) -> OutputUnavailableError:
    code = exc.rc.value if isinstance(exc.rc, ReasonCode) else exc.rc
    if code in (_UNSUPPORTED_VERSION, int(CONNACK_REFUSED_PROTOCOL_VERSION)):
        return VersionRefusedError("the broker does not speak this version", is_certain=True)
    if code is None:
        return VersionRefusedError("the broker closed the connection unasked", is_certain=False)
    return OutputUnavailableError(f"the broker refused the connection: {exc}")
