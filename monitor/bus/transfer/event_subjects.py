"""What of a stored event says where it belongs. Nothing else of it is decoded."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Struct

from monitor.bus.contract import DeadLetter
from monitor.model.errors import BusSchemaError


class _Place(Struct):
    workspace: str
    fingerprint: str = ""


class _RunPlace(Struct):
    key: _Place


class _EventPlace(Struct):
    workspace: str = ""
    run: _RunPlace | None = None
    alert: _Place | None = None


class EventSubject(NamedTuple):
    """The workspace that an event is about, and the fingerprint of its alert, if it has one."""

    workspace: str
    alert: str | None = None


_decode_place = msgspec.json.Decoder(_EventPlace).decode
_decode_letter = msgspec.json.Decoder(DeadLetter).decode


def subject_of(body: bytes, what: str) -> EventSubject:
    """Return what a stored event is about.

    Raises:
        BusSchemaError: it is damaged. The message names ``what``.
    """
    try:
        place = _decode_place(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise BusSchemaError(f"{what} is damaged: {exc}; restore a backup") from exc
    if place.run is not None:
        return EventSubject(place.run.key.workspace)
    if place.alert is not None:
        return EventSubject(place.alert.workspace, place.alert.fingerprint)
    return EventSubject(place.workspace)


def letter_of(body: bytes, what: str) -> DeadLetter:
    """Return a stored dead letter; raises as `subject_of`."""
    try:
        return _decode_letter(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise BusSchemaError(f"{what} is damaged: {exc}; restore a backup") from exc


def with_position(letter: DeadLetter, position: int) -> bytes:
    """Return a dead letter as it is stored at another position."""
    return msgspec.json.encode(msgspec.structs.replace(letter, position=position))
