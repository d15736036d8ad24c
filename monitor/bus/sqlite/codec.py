"""Encodes the model's words for the store, and decodes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from monitor.bus.contract import DeadLetter, StoredCallback
from monitor.model.events import Event
from monitor.model.runs import RunState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

encode = msgspec.json.Encoder().encode

# Several at a time, as `bulk.JsonQuery` brings them.
decode_runs = msgspec.json.Decoder(list[RunState]).decode
decode_recorded = msgspec.json.Decoder(list[tuple[int, Event]]).decode
decode_callbacks = msgspec.json.Decoder(list[tuple[int, StoredCallback]]).decode
decode_dead_letters = msgspec.json.Decoder(list[DeadLetter]).decode
decode_texts = msgspec.json.Decoder(list[str]).decode


def microseconds(at: datetime) -> int:
    """Return an aware instant as whole microseconds since 1970; exact, unlike a float."""
    return (at - _EPOCH) // _MICROSECOND


def instant(microseconds_since_1970: int) -> datetime:
    return _EPOCH + _MICROSECOND * microseconds_since_1970
