"""Pack the properties of a message; what many messages share is packed once."""

from __future__ import annotations

from functools import lru_cache

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties, VariableByteIntegers

from monitor.outputs.mqtt.packets import length_field, text_field

_USER_PROPERTY = b"\x26"
_KINDS_KEPT = 64  # of messages: a few content types, each with its expiry


def pack(
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
