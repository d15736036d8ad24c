"""Encodes the model's words as rows and decodes them; many rows go by few statements.

Each statement, and each row that is fetched, releases the interpreter's lock and may wait 5 ms to
get it back while the event loop is busy. A hundred small statements would cost half a second then;
one large statement costs what a small one does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from sqlite3 import Connection, IntegrityError

import msgspec

from monitor.bus.contract import DeadLetter, StoredCallback
from monitor.model.events import Event
from monitor.model.runs import RunState

# Rows that are decoded in one piece, which nothing else in this process can interrupt.
DECODED_AT_ONCE = 100
# Rows of one statement. Each statement is prepared once and kept, so the sizes are few; but most
# commits are small, and those take one statement.
_SIZES = (128, 64, 32, *range(16, 0, -1))
_BODY = "iif(length(trim(body, char(9, 10, 13, 32))), body, '?')"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

encode = msgspec.json.Encoder().encode

# Several at a time, as `JsonQuery` brings them.
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


class BulkInsert:
    """An INSERT for any number of rows: ``head``, the rows, ``tail``."""

    def __init__(self, head: str, *, width: int, tail: str = "") -> None:
        row = f"({', '.join('?' * width)})"
        self._statements = {
            size: f"{head} VALUES {', '.join([row] * size)} {tail}" for size in _SIZES
        }

    def run_if_new(self, db: Connection, rows: Sequence[Sequence[object]]) -> int | None:
        """Insert rows that are probably new by one statement; return the number of the last one.

        None: nothing was inserted, because one of them was not new or there are too many.
        """
        statement = self._statements.get(len(rows))
        if statement is None:
            return None
        try:
            return db.execute(statement, list(chain.from_iterable(rows))).lastrowid
        except IntegrityError:
            return None  # the statement has undone what it had done

    def run(self, db: Connection, rows: Iterable[Sequence[object]]) -> int:
        """Insert the rows in their order; return the number of the last one, 0 without rows."""
        remaining = list(rows)
        start = last = 0
        for size in _SIZES:
            while len(remaining) - start >= size:
                piece = remaining[start : start + size]
                values = list(chain.from_iterable(piece))
                last = db.execute(self._statements[size], values).lastrowid or 0
                start += size
        return last


class JsonQuery:
    """A SELECT whose rows come back as one JSON array, in the order of ``rows``.

    ``rows`` is a SELECT, ``item`` the SQL expression that makes JSON text of one of its rows. An
    empty body, or one of white space, is no JSON, and must not count as an absent row.
    """

    def __init__(self, rows: str, *, item: str = _BODY) -> None:
        self._statement = f"SELECT '[' || coalesce(group_concat({item}), '') || ']' FROM ({rows})"  # noqa: S608 - constants of this package

    def fetch(self, db: Connection, values: Sequence[object] | Mapping[str, object]) -> str:
        (array,) = db.execute(self._statement, values).fetchone()
        return str(array)
