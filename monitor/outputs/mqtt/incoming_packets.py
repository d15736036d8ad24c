"""Limits of what a broker may send: lengths of packets, and their kinds. Pure: no I/O.

A broker that was taken over, or a client whose retained message it passes on, could otherwise fill
the memory: a packet may have 256 MB. We publish with QoS 1 and subscribe with QoS 0, so few kinds
of packets can be meant for us; whatever else comes is a flood, or no MQTT.
"""

from __future__ import annotations

from monitor.outputs.mqtt.packets import KIND_MASK

LONGEST_PACKET_BYTES = 131_072  # announced to brokers of MQTT 5, and enforced for all
_CONNACK, _PUBLISH, _SUBACK, _PINGRESP, _DISCONNECT = 0x20, 0x30, 0x90, 0xD0, 0xE0
_QOS_MASK = 0x06
_LENGTH_BYTES = 4  # at most
_SEVEN_BITS = 0x7F


def packet_end(received: bytes, start: int) -> int | None:
    """Return where the packet that begins at ``start`` ends; None while its length is incomplete.

    Raises:
        ValueError: it is longer than we take.
    """
    length = 0
    for count, byte in enumerate(received[start + 1 : start + 1 + _LENGTH_BYTES]):
        length |= (byte & _SEVEN_BITS) << (7 * count)
        if length > LONGEST_PACKET_BYTES:
            break
        if byte <= _SEVEN_BITS:
            return start + 2 + count + length
    else:
        if len(received) <= start + _LENGTH_BYTES:
            return None
    raise ValueError(f"a packet of more than {LONGEST_PACKET_BYTES} bytes")


def refuse_unasked(first_byte: int, *, is_accepted: bool, is_pinged: bool) -> None:
    """Refuse a packet that answers nothing; ``is_pinged`` while a PINGREQ has no answer.

    Raises:
        ValueError: no broker sends it to us now.
    """
    kind = first_byte & KIND_MASK
    if kind == _PUBLISH:
        is_expected = not first_byte & _QOS_MASK
    elif kind == _CONNACK:
        is_expected = not is_accepted
    elif kind == _PINGRESP:
        is_expected = is_pinged
    else:
        is_expected = kind in (_SUBACK, _DISCONNECT)
    if not is_expected:
        raise ValueError(f"a packet that nothing asked for: {first_byte:#04x}")
