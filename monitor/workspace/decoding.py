"""Decodes bytes to rows. Every failure is a `PayloadError`; none of them repeats what was read.

A list is split into its rows before any of them is read, so one poisoned row does not cost the
others. Here, and nowhere else, are its texts cut and made harmless.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from monitor.model.errors import PayloadError
from monitor.model.outside import LONGEST_ERROR, harmless
from monitor.model.slices import in_slices
from monitor.workspace import wire
from monitor.workspace.answer_headers import is_believable
from monitor.workspace.payloads import BadRow, RowHead

T = TypeVar("T")
W = TypeVar("W")
IsKnown = Callable[[RowHead], bool]

# What msgspec raises on junk: its own, and Python's for broken text, deep nesting and the edges
# of the calendar.
_BAD_VALUES = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)
_LONGEST_ID = 200
# Of a list that is not requested in pages, and of one that stands in a row.
MOST_ROWS = 10_000
_SLICE = 50  # rows; one takes up to 40 microseconds
# Read escape by escape, so that an escaped backslash before "ud83d" is not taken for one.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)
_REPLACEMENT = rb"\ufffd"
_MOST_ESCAPES = (
    200_000  # of a text that is mended: millions of them hold the event loop for seconds
)
_LONGEST_REASON = 300
_HAVE_LINES = frozenset({"error", "disable_reason"})  # fields of rows that people read as a text


def read_as(decoder: msgspec.json.Decoder[W], raw: bytes | Raw) -> W:
    """Decode one JSON text.

    Raises:
        PayloadError: it is not JSON, or not of that shape; the message names the place.
    """
    try:
        try:
            return decoder.decode(raw)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            mended = _mended(bytes(raw))
            if mended is None:
                raise
            return decoder.decode(mended)
    except _BAD_VALUES as exc:
        raise PayloadError(_reason(exc)) from exc


def _reason(exc: Exception) -> str:
    return harmless(f"cannot be read: {exc}", longest=_LONGEST_REASON)


def _mended(text: bytes) -> bytes | None:
    """Replace escapes of half a character; None where there are none.

    A JavaScript server that cuts a name in the middle of an emoji sends such a half. The decoder
    refuses the whole page for it, and a page would be lost for as long as that name exists.
    """
    if text.count(b"\\") > _MOST_ESCAPES:
        return None
    mended = _ESCAPE.sub(lambda match: _REPLACEMENT if match["half"] else match[0], text)
    return None if mended == text else mended


class RowKind(Generic[T]):
    """How one kind of row is read: its shape, and what becomes of it."""

    def __init__(self, shape: type[W], make: Callable[[W], T], *, is_exact: bool = False) -> None:
        """``is_exact`` where texts are compared with what we have sent, and never shown."""
        self._is_exact = is_exact
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape)
        self._make = make

    def decode(self, raw: bytes | Raw) -> T:
        """Read one row.

        Raises:
            PayloadError: as `read_as`.
        """
        shaped = read_as(self._decoder, raw)
        try:
            row = self._make(shaped)
        except _BAD_VALUES as exc:
            raise PayloadError(_reason(exc)) from exc
        return row if self._is_exact else _with_harmless_texts(row)


def _with_harmless_texts(value: T) -> T:
    """Return the same with every text in it cut; ids have been checked and stay."""
    harmless_value: Any = value
    if isinstance(value, str):
        harmless_value = harmless(value)
    elif isinstance(value, tuple | frozenset):
        harmless_value = type(value)(map(_with_harmless_texts, value))
    elif isinstance(value, Struct):
        changes = {
            name: after
            for name in value.__struct_fields__
            if (after := _harmless_field(name, before := getattr(value, name))) is not before
        }
        harmless_value = msgspec.structs.replace(value, **changes) if changes else value
    return cast("T", harmless_value)


def _harmless_field(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if name in _HAVE_LINES:
            after = harmless(value, longest=LONGEST_ERROR, has_lines=True)
        else:
            after = harmless(value)
        return value if after == value else after
    return _with_harmless_texts(value) if isinstance(value, tuple | frozenset | Struct) else value


class Rows(Struct, Generic[T], frozen=True, kw_only=True):
    """A decoded list. ``length`` counts what was sent, ``ids`` are those that could be read.

    ``known`` are the rows that were recognised by their heads.
    """

    rows: tuple[T, ...]
    bad_rows: tuple[BadRow, ...]
    ids: frozenset[str]
    length: int
    known: tuple[RowHead, ...] = ()
    count: int | None = None  # of the whole list, where the answer has it


_LISTING = msgspec.json.Decoder(wire.Listing | list[Raw])
_HEAD = msgspec.json.Decoder(wire.Head)
_ONLY_ID = msgspec.json.Decoder(wire.OnlyId)
_MANY = msgspec.json.Decoder(list[Raw] | wire.Wrapped[Raw] | None)
_TEXT = msgspec.json.Decoder(str)


def decode_rows(body: bytes, kind: RowKind[T], *, most_rows: int | None = None) -> Rows[T]:
    """Read a list, with or without its envelope, row by row.

    Raises:
        PayloadError: the list as a whole is not one, or has more rows; none of them was read.
    """
    reading = _ListReading(body, kind, most_rows=most_rows, is_known=None)
    for raw in reading.raws:
        reading.add(raw)
    return reading.rows()


async def decode_page(
    body: bytes, kind: RowKind[T], *, most_rows: int = MOST_ROWS, is_known: IsKnown | None = None
) -> Rows[T]:
    """Read a list in slices; rows that ``is_known`` recognises are read no further.

    Raises:
        PayloadError: as `decode_rows`.
    """
    reading = _ListReading(body, kind, most_rows=most_rows, is_known=is_known)
    async for raw in in_slices(reading.raws, size=_SLICE):
        reading.add(raw)
    return reading.rows()


class _ListReading(Generic[T]):
    """One list, while its rows are read."""

    def __init__(
        self,
        body: bytes,
        kind: RowKind[T],
        *,
        most_rows: int | None,
        is_known: IsKnown | None,
    ) -> None:
        listing = read_as(_LISTING, body)
        self.raws = listing if isinstance(listing, list) else listing.data
        if most_rows is not None and len(self.raws) > most_rows:
            raise PayloadError(f"has {len(self.raws)} rows where {most_rows} at most are expected")
        self._count = None if isinstance(listing, list) else listing.count
        self._kind = kind
        self._is_known = is_known
        self._rows: list[T] = []
        self._known: list[RowHead] = []
        self._bad_rows: list[BadRow] = []
        self._ids: set[str] = set()

    def add(self, raw: Raw) -> None:
        if self._is_known is not None:
            head = _head_of(raw)
            if head is not None and self._is_known(head):
                self._ids.add(head.id)
                self._known.append(head)
                return
        row_id = _id_in(raw)
        if row_id is not None:
            self._ids.add(row_id)
        try:
            self._rows.append(self._kind.decode(raw))
        except PayloadError as exc:
            self._bad_rows.append(BadRow(id=row_id, reason=str(exc)))

    def rows(self) -> Rows[T]:
        count = self._count
        return Rows(
            rows=tuple(self._rows),
            known=tuple(self._known),
            bad_rows=tuple(self._bad_rows),
            ids=frozenset(self._ids),
            length=len(self.raws),
            count=count if isinstance(count, int) and not isinstance(count, bool) else None,
        )


def decode_text(body: bytes) -> str:
    """Read an answer that is one JSON string, as the status operations give."""
    return harmless(read_as(_TEXT, body))


def readable(raw: Raw, kind: RowKind[T]) -> tuple[T, ...]:
    """Read an embedded list, with or without its envelope; unreadable members are left out.

    Raises:
        PayloadError: it has more than `MOST_ROWS`.
    """
    try:
        many = read_as(_MANY, raw)
    except PayloadError:
        return ()
    members = [] if many is None else unwrap(many)
    if len(members) > MOST_ROWS:
        raise PayloadError(f"holds a list of {len(members)} rows; {MOST_ROWS} are read at most")
    decoded = []
    for member in members:
        try:
            decoded.append(kind.decode(member))
        except PayloadError:
            continue
    return tuple(decoded)


def unwrap(many: list[W] | wire.Wrapped[W] | None) -> list[W]:
    """Return the members of an embedded list, whichever way it came."""
    if many is None:
        return []
    return many if isinstance(many, list) else many.data


def text_of(value: int | str) -> str:
    """Return an id as text.

    Raises:
        ValueError: it cannot serve as an id.
    """
    text = str(value)
    if not text or len(text) > _LONGEST_ID or not text.isprintable():
        raise ValueError("id is empty, too long or unprintable")
    return text


def text_or_none(value: int | str | None) -> str | None:
    """Return an id as text, None for none and for an empty one."""
    return None if value is None or value == "" else text_of(value)


def instant(value: datetime | None) -> datetime | None:
    """Return aware UTC; a time without a zone is taken for UTC, as the API means it.

    None also for a time at the edge of the calendar, which stands for none.
    """
    if value is None:
        return None
    at = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return at if is_believable(at) else None


def error_text(value: object) -> str | None:
    """Return the text of an error field: it is text, an object with a message, or anything."""
    if isinstance(value, dict):
        value = next(
            (value[key] for key in ("message", "details", "name") if value.get(key)), value
        )
    if value is None or value in ("", {}, []):
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _head_of(raw: Raw) -> RowHead | None:
    try:
        head = _HEAD.decode(raw)
        return RowHead(
            id=text_of(head.id), native_status=head.status, updated_at=instant(head.updated_at)
        )
    except _BAD_VALUES:
        return None


def _id_in(raw: Raw) -> str | None:
    try:
        return text_of(_ONLY_ID.decode(raw).id)
    except _BAD_VALUES:
        return None
