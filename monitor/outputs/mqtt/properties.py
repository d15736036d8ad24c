"""Pack the properties of a message; what many messages share is packed once."""

from __future__ import annotations

from functools import lru_cache

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties, VariableByteIntegers, writeUTF

from monitor.outputs.mqtt.library_overrides import PackedProperties

_USER_PROPERTY = b"\x26"
_KINDS_KEPT = 64  # of messages: a few content types, each with its expiry


def pack(
    *,
    content_type: str | None,
    is_text: bool,
    expiry_seconds: int | None,
    user_properties: tuple[tuple[str, str], ...],
) -> PackedProperties:
    """Return the properties of a PUBLISH packet, as MQTT 5 has them."""
    fields = _shared_fields(content_type, is_text, expiry_seconds) + b"".join(
        _USER_PROPERTY + writeUTF(name) + writeUTF(value)  # type: ignore[no-untyped-call]  # paho
        for name, value in user_properties
    )
    return PackedProperties(VariableByteIntegers.encode(len(fields)) + fields)  # type: ignore[no-untyped-call]  # paho


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
