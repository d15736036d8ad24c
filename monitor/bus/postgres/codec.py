"""Encodes the model's words for the store, and decodes them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from monitor.bus.contract import DeadLetter, StoredCallback
from monitor.model.errors import BusSchemaError
from monitor.model.events import Event
from monitor.model.runs import RunState

T = TypeVar("T")

# Rows that are decoded in one piece, which nothing else in this process can interrupt.
_DECODED_AT_ONCE = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ESCAPED = re.compile(r"\\(.)")

encode = msgspec.json.Encoder().encode
decode_run = msgspec.json.Decoder(RunState).decode
decode_event = msgspec.json.Decoder(Event).decode
decode_callback = msgspec.json.Decoder(StoredCallback).decode
decode_dead_letter = msgspec.json.Decoder(DeadLetter).decode


def microseconds(at: datetime) -> int:
    """Return an aware instant as whole microseconds since 1970; exact, unlike a float."""
    return (at - _EPOCH) // _MICROSECOND


def instant(microseconds_since_1970: int) -> datetime:
    return _EPOCH + _MICROSECOND * microseconds_since_1970


def text(value: str) -> str:
    """Return the value as a column of text has it: the server stores every character but NUL."""
    if "\0" in value or "\\" in value:
        return value.replace("\\", "\\\\").replace("\0", "\\0")
    return value


def read_text(stored: str) -> str:
    """Return the value that `text` has written."""
    if "\\" in stored:
        return _ESCAPED.sub(lambda escape: "\0" if escape[1] == "0" else escape[1], stored)
    return stored


async def decode_all(bodies: Sequence[bytes], decode: Callable[[bytes], T]) -> list[T]:
    """Decode bodies in their order, in pieces between which others run.

    Raises:
        BusSchemaError: one of them cannot be understood.
    """
    decoded: list[T] = []
    for start in range(0, len(bodies), _DECODED_AT_ONCE):
        if start:
            await asyncio.sleep(0)
        decoded += decode_piece(bodies[start : start + _DECODED_AT_ONCE], decode)
    return decoded


def decode_piece(bodies: Iterable[bytes], decode: Callable[[bytes], T]) -> list[T]:
    """Decode a few bodies at once; raises as `decode_all`."""
    try:
        return [decode(body) for body in bodies]
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise BusSchemaError(f"something in the store cannot be understood: {exc}") from exc
