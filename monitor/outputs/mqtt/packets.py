"""Packets as bytes: a PUBLISH with QoS 1, its properties, and the PUBACK that answers it. No I/O.

paho makes a dozen objects for each packet; at some hundred events a second that costs more
than all else that the broker's connection does.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties, VariableByteIntegers

PUBACK = 0x40  # the upper half of a packet's first byte
KIND_MASK = 0xF0
_PUBLISH = b"\x32"  # QoS 1
_PUBLISH_RETAINED = b"\x33"
_TEXT_BYTES_LIMIT = 65_535
_PACKET_BYTES_LIMIT = 268_435_455
_PUBACK_BYTES_LIMIT = 2 * _TEXT_BYTES_LIMIT  # a reason and some properties, never parsed
_ID_BYTES = 2
_LENGTH_BYTES = 4  # at most
_SEVEN_BITS = 0x7F
_USER_PROPERTY = b"\x26"
_KINDS_KEPT = 64  # of messages: a few content types, each with its expiry


class Puback(Struct, frozen=True, gc=False):
    """An acknowledgement. ``end`` is where the next packet begins."""

    message_id: int
    code: int
    end: int


def publish_packet(
    topic: str, payload: bytes, *, message_id: int, retain: bool, properties: bytes
) -> bytes:
    """Return the packet; ``properties`` has its length in front, and is empty in MQTT 3.1.1.

    Raises:
        ValueError: the topic or the payload cannot be sent.
    """
    if "+" in topic or "#" in topic:
        raise ValueError("a topic to publish on has no wildcards")
    packed_topic = text_field(topic)
    rest_bytes = len(packed_topic) + _ID_BYTES + len(properties) + len(payload)
    if not topic or rest_bytes > _PACKET_BYTES_LIMIT:
        raise ValueError("no topic, or more bytes than a packet can have")
    return b"".join(
        (
            _PUBLISH_RETAINED if retain else _PUBLISH,
            length_field(rest_bytes),
            packed_topic,
            message_id.to_bytes(_ID_BYTES, "big"),
            properties,
            payload,
        )
    )


def text_field(text: str) -> bytes:
    """Return the text with its length in front.

    Raises:
        ValueError: it is too long, or no valid Unicode.
    """
    encoded = text.encode()
    if len(encoded) > _TEXT_BYTES_LIMIT:
        raise ValueError(f"{len(encoded)} bytes are more than a text of MQTT may have")
    return len(encoded).to_bytes(2, "big") + encoded


def length_field(value: int) -> bytes:
    """Return the number in seven bits a byte, the lowest first."""
    packed = bytearray()
    while value > _SEVEN_BITS:
        packed.append(value & _SEVEN_BITS | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)


def read_puback(received: bytes, start: int) -> Puback | None:
    """Return the PUBACK that begins at ``start``; None while bytes of it are missing.

    Raises:
        ValueError: it is malformed.
    """
    at, rest_bytes = start + 1, 0
    for shift in range(0, 7 * _LENGTH_BYTES, 7):
        if at >= len(received):
            return None
        rest_bytes |= (received[at] & _SEVEN_BITS) << shift
        at += 1
        if received[at - 1] <= _SEVEN_BITS:
            break
    if not _ID_BYTES <= rest_bytes <= _PUBACK_BYTES_LIMIT:
        raise ValueError(f"a PUBACK of {rest_bytes} bytes")
    end = at + rest_bytes
    if len(received) < end:
        return None
    code = received[at + _ID_BYTES] if rest_bytes > _ID_BYTES else 0
    return Puback(received[at] << 8 | received[at + 1], code, end)


def packed_properties(
    *,
    content_type: str | None,
    is_text: bool,
    expiry_seconds: int | None,
    user_properties: tuple[tuple[str, str], ...],
) -> bytes:
    """Return the properties of a PUBLISH packet as MQTT 5 has them, their length in front.

    Raises:
        ValueError: a user property cannot be sent.
    """
    fields = [_shared_fields(content_type, is_text, expiry_seconds)]
    for name, value in user_properties:
        fields += (_name_field(name), text_field(value))
    packed = b"".join(fields)
    return length_field(len(packed)) + packed


@lru_cache(_KINDS_KEPT)
def _name_field(name: str) -> bytes:
    return _USER_PROPERTY + text_field(name)


@lru_cache(_KINDS_KEPT)
def _shared_fields(content_type: str | None, is_text: bool, expiry_seconds: int | None) -> bytes:  # noqa: FBT001 - a key of the cache
    """Return what many messages have in common, without its length."""
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho
    if content_type is not None:
        properties.ContentType = content_type
    if is_text:
        properties.PayloadFormatIndicator = 1
    if expiry_seconds is not None:
        properties.MessageExpiryInterval = expiry_seconds
    packed = bytes(properties.pack())  # type: ignore[no-untyped-call]  # paho
    _, length_bytes = VariableByteIntegers.decode(packed)  # type: ignore[no-untyped-call]  # paho
    return packed[length_bytes:]
