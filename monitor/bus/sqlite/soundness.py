"""Is what stands in a store what the monitor has written there?

At the start a check that takes no longer for a large store: the newest rows of each table, the end
of the log, and, up to `_SMALL_BYTES`, every page. `examine` looks at everything.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from monitor.bus.contract import DeadLetter, StoredCallback
from monitor.bus.sqlite import codec, log
from monitor.model.errors import BusSchemaError
from monitor.model.events import Event
from monitor.model.runs import RunState

# Checked as a whole, in about 0.3 s.
_SMALL_BYTES = 32 * 1024 * 1024
_NEWEST_ROWS = 10_000
REPAIR = "restore a backup, or move the file away to start over"
_PROBLEMS_SHOWN = 20  # of each part


class FoundDamage(NamedTuple):
    """What is wrong, and in which part of the store."""

    part: str
    what: str


class _Table(NamedTuple):
    """How the rows of a table are read, the newest first where that is known."""

    name: str
    rows: str
    decode: Callable[[str], Any] | None = None  # of the second column, which is a body
    columns: Callable[[Any], tuple[object, ...]] = lambda _body: ()  # the others, from the body


_TABLES = (
    _Table(
        "event",
        "SELECT position, body, id, recorded_at FROM event ORDER BY position DESC",
        msgspec.json.Decoder(Event).decode,
        lambda event: (event.id, codec.microseconds(event.recorded_at)),
    ),
    _Table(
        "run",
        "SELECT number, body, workspace, kind, id, status, pipeline_id FROM run"
        " ORDER BY number DESC",
        msgspec.json.Decoder(RunState).decode,
        lambda run: (
            run.key.workspace,
            run.key.kind,
            run.key.id,
            run.status,
            run.pipeline.id if run.pipeline is not None else None,
        ),
    ),
    _Table(
        "callback",
        "SELECT id, body, workspace, fingerprint FROM callback WHERE processed_at IS NULL"
        " ORDER BY id DESC",
        msgspec.json.Decoder(StoredCallback).decode,
        lambda callback: (callback.workspace, callback.fingerprint),
    ),
    _Table(
        "dead_letter",
        "SELECT number, body, position FROM dead_letter ORDER BY number DESC",
        msgspec.json.Decoder(DeadLetter).decode,
        lambda letter: (letter.position,),
    ),
    _Table("consumer", "SELECT name, position, lost FROM consumer"),
    _Table("consumer_state", "SELECT key, value, consumer FROM consumer_state"),
    _Table("state_entry", "SELECT key, value, workspace, topic FROM state_entry"),
    _Table("store_entry", "SELECT key, value, topic FROM store_entry"),
    _Table("inbox", "SELECT workspace, waiting FROM inbox"),
)


def refuse_damaged_pages(db: sqlite3.Connection, store: Path) -> None:
    """Return if every page of a store of moderate size is sound; a larger one is not read.

    Raises:
        BusSchemaError: one is not.
        sqlite3.Error: one cannot even be read.
    """
    if _number(db, "page_count") * _number(db, "page_size") <= _SMALL_BYTES:
        for problem in _pages(db, 1):
            raise damaged(store, problem.what)


def refuse_surprises(db: sqlite3.Connection, store: Path) -> None:
    """Return if the newest rows and the end of the log are as the monitor writes them.

    Raises:
        BusSchemaError: they are not.
    """
    try:
        for problem in (*_log(db, limit=_NEWEST_ROWS), *_rows(db, limit=_NEWEST_ROWS)):
            raise damaged(store, problem.what)
    except (sqlite3.Error, UnicodeDecodeError) as exc:
        raise damaged(store, exc) from exc


def damaged(store: Path, what: object) -> BusSchemaError:
    """Return the error for a store that cannot be used, in one line with the way out."""
    return BusSchemaError(f"the store {store} is damaged: {' '.join(str(what).split())}: {REPAIR}")


def examine(db: sqlite3.Connection, on_part: Callable[[str], None]) -> list[FoundDamage]:
    """Return what is wrong with the store; ``on_part`` is called as each part begins.

    Reads every page and every row, so it takes as long as the store is large.

    Raises:
        sqlite3.OperationalError: it was interrupted.
    """
    parts: dict[str, Callable[[], Iterator[FoundDamage]]] = {
        "pages": lambda: _pages(db, _PROBLEMS_SHOWN),
        "log": lambda: _log(db, limit=-1),
        "rows": lambda: _rows(db, limit=-1),
    }
    problems: list[FoundDamage] = []
    for part, problems_of in parts.items():
        on_part(part)
        try:
            problems += islice(problems_of(), _PROBLEMS_SHOWN)
        except (sqlite3.Error, UnicodeDecodeError) as exc:
            if getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise
            problems.append(FoundDamage(part, str(exc)))
    return problems


def _pages(db: sqlite3.Connection, most: int) -> Iterator[FoundDamage]:
    # Not `quick_check`: it passes an index that does not find its rows.
    for (line,) in db.execute(f"PRAGMA integrity_check({most})"):
        if line != "ok":
            yield FoundDamage("pages", str(line))


def _log(db: sqlite3.Connection, *, limit: int) -> Iterator[FoundDamage]:
    """Compare the newest positions with those of a log without holes; -1 compares all."""
    newest = expected = log.newest_position(db)
    statement = "SELECT position FROM event ORDER BY position DESC LIMIT ?"
    for (position,) in db.execute(statement, (limit,)):
        if position != expected:
            what = f"the log has event {position} where {expected} belongs"
            yield FoundDamage("log", what)
        expected = position - 1
    ahead = "SELECT name, position FROM consumer WHERE position > ?"
    for name, position in db.execute(ahead, (newest,)):
        what = f"the consumer {name} has read up to {position}, and the log ends at {newest}"
        yield FoundDamage("log", what)


def _rows(db: sqlite3.Connection, *, limit: int) -> Iterator[FoundDamage]:
    for table in _TABLES:
        for number, body, *columns in db.execute(f"{table.rows} LIMIT ?", (limit,)):
            if (what := _problem_of(table, body, columns)) is not None:
                yield FoundDamage("rows", f"row {number} of {table.name} {what}")


def _problem_of(table: _Table, body: object, columns: list[object]) -> str | None:
    if table.decode is None:
        return None
    if not isinstance(body, bytes):
        return "has no body"
    try:
        decoded = table.decode(body.decode())
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        return f"cannot be understood: {exc}"
    return None if table.columns(decoded) == tuple(columns) else "belongs to another body"


def _number(db: sqlite3.Connection, pragma: str) -> int:
    return int(db.execute(f"PRAGMA {pragma}").fetchone()[0])
