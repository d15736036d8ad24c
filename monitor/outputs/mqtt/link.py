"""One connection to a broker, with an answer for every message.

All of it runs on the event loop. A message is queued, on its way or answered; its future belongs
to its sender. When the link ends, every open future ends with an error at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable, Iterable

import aiomqtt
import structlog
from aiomqtt.client import ProtocolVersion
from msgspec import Struct
from paho.mqtt.client import CONNACK_REFUSED_PROTOCOL_VERSION
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from monitor.model.clock import Clock
from monitor.model.errors import (
    OutputConnectionLostError,
    OutputRefusedError,
    OutputUnavailableError,
)
from monitor.model.lease_check import LEASE_UNCERTAIN, MaySend
from monitor.outputs.mqtt.library_overrides import LIBRARY_ERRORS, BrokerClient
from monitor.outputs.mqtt.link_ends import LinkEnd
from monitor.outputs.mqtt.packets import packed_properties, publish_packet
from monitor.outputs.mqtt.settings import MqttSettings

log = structlog.get_logger()

# Reason codes of a PUBACK after which the same message will be refused again.
_FINAL_REASONS = {
    0x87: "not authorized",
    0x90: "topic name invalid",
    0x95: "packet too large",
    0x99: "payload format invalid",
}
_OTHER_REASONS = {
    0x80: "unspecified error",
    0x83: "implementation specific error",
    0x91: "packet identifier in use",
    0x97: "quota exceeded",
}
_FAILURE_FROM = 0x80  # lower reason codes mean success, such as "no matching subscribers"
_UNSUPPORTED_VERSION = 0x84
_INFLIGHT_DEFAULT = 65_535  # what the standard says where a broker states no limit


class VersionRefusedError(OutputUnavailableError):
    """The broker does not speak the requested version of MQTT.

    ``is_certain`` is False where the broker hung up, or was silent, instead of saying so.
    """

    def __init__(self, message: str, *, is_certain: bool) -> None:
        super().__init__(message)
        self.is_certain = is_certain


class OutgoingMessage(Struct, frozen=True, kw_only=True, gc=False):
    """One message to be published. Only MQTT 5 carries the fields after ``retain``."""

    topic: str
    payload: bytes
    retain: bool = False
    content_type: str | None = None
    is_text: bool = True
    expiry_seconds: int | None = None
    user_properties: tuple[tuple[str, str], ...] = ()


class MqttLink:
    """A connection that is used once: made, used, lost or closed."""

    def __init__(
        self,
        settings: MqttSettings,
        *,
        clock: Clock,
        version: ProtocolVersion,
        will: OutgoingMessage | None,
        tls: ssl.SSLContext | None,
        may_send: MaySend | None = None,
    ) -> None:
        """``may_send`` is asked before each write; where it may not, the link ends at once.

        It ends without a DISCONNECT. So the broker publishes the last will, unless the new holder
        of the shard has connected by then: it has the same client id, and the session is its own.
        """
        self._may_send = may_send
        self._client = BrokerClient(
            settings,
            version=version,
            will=None
            if will is None
            else aiomqtt.Will(will.topic, will.payload, qos=1, retain=True),
            tls=tls,
            may_send=may_send,
            on_accepted=self._read_limits,
            on_answer=self._answer,
            on_end=self._lose,
            on_message=self._forward,
        )
        self._on_foreign: Callable[[str], None] | None = None
        self.is_version_5 = version is ProtocolVersion.V5
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._connect_timeout_seconds = settings.connect_timeout_seconds
        self._acknowledge_timeout_seconds = settings.acknowledge_timeout_seconds
        self._inflight_limit = _INFLIGHT_DEFAULT
        self._packet_bytes_limit: int | None = None
        self._answers: dict[int, tuple[asyncio.Future[None], float]] = {}  # by message id
        self._queue_out: deque[tuple[OutgoingMessage, asyncio.Future[None]]] = deque()
        self._is_lost = False
        self.lost: asyncio.Future[LinkEnd] = self._loop.create_future()

    # --- connecting and leaving ---

    async def open(self) -> None:
        """Return when the broker has accepted the connection. A cancelled call leaves no link.

        Raises:
            VersionRefusedError: it does not speak this version.
            OutputUnavailableError: no connection in time, or it was refused.
        """
        try:
            # A limit of our own, because TLS and a name server may each take their time.
            async with asyncio.timeout(self._connect_timeout_seconds):
                await self._client.connect()
        except TimeoutError as exc:
            failure = self._timeout_error()
            self._client.drop_connection()
            raise failure from exc
        except aiomqtt.MqttCodeError as exc:
            self._client.drop_connection()
            raise _connect_error(exc) from exc
        except LIBRARY_ERRORS as exc:
            self._client.drop_connection()
            raise OutputUnavailableError(str(exc) or "no connection") from exc
        except asyncio.CancelledError:
            self._client.drop_connection()
            raise

    def _timeout_error(self) -> OutputUnavailableError:
        if not self._client.has_socket:
            return OutputUnavailableError("no connection in time")
        # Some old brokers cannot even read the question and wait for the rest of it.
        return VersionRefusedError("the broker did not answer in time", is_certain=False)

    async def close(self) -> None:
        """Disconnect from the broker, so that it does not publish the last will."""
        if self._is_lost:
            return
        with contextlib.suppress(aiomqtt.MqttError, OSError):
            await self._client.disconnect()
        self.abort("closed")

    def abort(self, reason: str) -> None:
        """Give the link up. Everything on its way ends as lost at once."""
        self._client.drop_connection()
        self._lose(LinkEnd(reason))

    async def watch(self, filters: Iterable[str], on_foreign: Callable[[str], None]) -> None:
        """Call ``on_foreign`` with the topic of each message of another client on these.

        Not in MQTT 3.1.1, which sends a client its own messages back. A broker that refuses it is
        no failure.

        Raises:
            OutputUnavailableError: the broker did not answer.
        """
        if not self.is_version_5:
            return
        self._on_foreign = on_foreign
        try:
            is_watched = await self._client.watch(filters)
        except LIBRARY_ERRORS as exc:
            raise OutputUnavailableError(str(exc) or "not connected") from exc
        if not is_watched:
            log.info("own retained topics are not watched: the broker refuses to show them")

    def _forward(self, topic: str) -> None:
        if self._on_foreign is not None:
            self._on_foreign(topic)

    def keep_alive(self) -> None:
        """Ping where due, and give the link up when an answer is overdue; call it every second."""
        if self._may_send is not None and not self._may_send():
            self.abort(LEASE_UNCERTAIN)
            return
        self._client.ping_if_due()
        oldest = next(iter(self._answers.values()), None)
        if oldest and self._clock.monotonic() - oldest[1] > self._acknowledge_timeout_seconds:
            self.abort("the broker did not acknowledge in time")

    # --- sending ---

    def send(self, message: OutgoingMessage) -> asyncio.Future[None]:
        """Publish a message; messages leave in the order of the calls.

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

    def _publish_now(self, message: OutgoingMessage, answer: asyncio.Future[None]) -> None:
        message_id = self._client.new_message_id()
        while message_id in self._answers:  # they start again after 65,535
            message_id = self._client.new_message_id()
        try:
            packet = self._packet_of(message, message_id)
        except ValueError as exc:
            answer.set_exception(OutputRefusedError(str(exc)))
            return
        if not self._client.send_packet(packet):
            answer.set_exception(OutputUnavailableError("not connected"))
            return
        self._answers[message_id] = (answer, self._clock.monotonic())

    def _packet_of(self, message: OutgoingMessage, message_id: int) -> bytes:
        """Return the packet of a message.

        Raises:
            ValueError: it cannot be sent to this broker.
        """
        properties = b""
        if self.is_version_5:
            properties = packed_properties(
                content_type=message.content_type,
                is_text=message.is_text,
                expiry_seconds=message.expiry_seconds,
                user_properties=message.user_properties,
            )
        packet = publish_packet(
            message.topic,
            message.payload,
            message_id=message_id,
            retain=message.retain,
            properties=properties,
        )
        limit = self._packet_bytes_limit
        if limit is not None and len(packet) > limit:
            # Sent all the same, it would cost the connection, again and again.
            raise ValueError(f"{len(packet)} bytes are more than the {limit} that the broker takes")
        return packet

    # --- what the client reports ---

    def _read_limits(self, properties: Properties | None) -> None:
        self._inflight_limit = getattr(properties, "ReceiveMaximum", _INFLIGHT_DEFAULT)
        self._packet_bytes_limit = getattr(properties, "MaximumPacketSize", None)

    def _answer(self, message_id: int, code: int) -> None:
        answer, _ = self._answers.pop(message_id, (None, 0.0))
        if answer is not None and not answer.done():
            _end_answer(answer, code)
        if self._queue_out:
            self._publish_queued()

    def _publish_queued(self) -> None:
        while self._queue_out and not self._is_lost and len(self._answers) < self._inflight_limit:
            message, answer = self._queue_out.popleft()
            if not answer.done():
                self._publish_now(message, answer)

    def _lose(self, end: LinkEnd) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        sent = [answer for answer, _ in self._answers.values()]
        queued = [answer for _, answer in self._queue_out]
        self._answers.clear()
        self._queue_out.clear()
        for answer in sent:
            if not answer.done():
                answer.set_exception(OutputConnectionLostError(end.reason))
        for answer in queued:
            if not answer.done():
                answer.set_exception(OutputUnavailableError(end.reason))
        self.lost.set_result(end)


def _end_answer(answer: asyncio.Future[None], code: int) -> None:
    if code < _FAILURE_FROM:
        answer.set_result(None)
    elif code in _FINAL_REASONS:
        answer.set_exception(OutputRefusedError(f"the broker says: {_FINAL_REASONS[code]}"))
    else:
        reason = _OTHER_REASONS.get(code, f"reason code {code:#x}")
        answer.set_exception(OutputUnavailableError(f"the broker says: {reason}"))


def _connect_error(exc: aiomqtt.MqttCodeError) -> OutputUnavailableError:
    code = exc.rc.value if isinstance(exc.rc, ReasonCode) else exc.rc
    if code in (_UNSUPPORTED_VERSION, int(CONNACK_REFUSED_PROTOCOL_VERSION)):
        return VersionRefusedError("the broker does not speak this version", is_certain=True)
    if code is None:
        return VersionRefusedError("the broker closed the connection unasked", is_certain=False)
    return OutputUnavailableError(f"the broker refused the connection: {exc}")
