"""The end of a connection to a broker, and who caused it."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct
from paho.mqtt.client import DisconnectFlags
from paho.mqtt.reasoncodes import ReasonCode

_SESSION_TAKEN_OVER = 0x8E
_UNSPECIFIED = 0x80  # what paho reports where the socket was closed


class LinkEndKind(Enum):
    """Who ended a connection."""

    TAKEN_OVER = auto()  # the broker says that another client has our client id
    CLOSED_BY_PEER = auto()  # the socket was closed without a reason
    OTHER = auto()


class LinkEnd(Struct, frozen=True):
    """Why a connection ended, for people and for code."""

    reason: str
    kind: LinkEndKind = LinkEndKind.OTHER


def end_of(flags: DisconnectFlags, reason_code: ReasonCode) -> LinkEnd:
    """Return the end that paho reports."""
    if flags.is_disconnect_packet_from_server:
        is_taken_over = reason_code.value == _SESSION_TAKEN_OVER
        kind = LinkEndKind.TAKEN_OVER if is_taken_over else LinkEndKind.OTHER
        return LinkEnd(str(reason_code), kind)
    if reason_code.value == _UNSPECIFIED:
        return LinkEnd("the connection was closed without a reason", LinkEndKind.CLOSED_BY_PEER)
    return LinkEnd(str(reason_code))
