"""Brings a file to the newest schema: numbered SQL files, each in a transaction of its own."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import structlog

from monitor.bus.sqlite.connection import connect, connect_readonly, is_damaged
from monitor.bus.sqlite.soundness import REPAIR, damaged, refuse_damaged_pages
from monitor.model.errors import BusSchemaError, BusUnavailableError

log = structlog.get_logger()

APPLICATION_ID = 1146113357
_FILE_NAME = re.compile(r"(\d{4})_\w+\.sql")


def prepare(path: Path, *, schema: Traversable | None = None) -> None:
    """Bring an existing file, which may be empty, to the newest schema.

    Raises:
        BusSchemaError: a newer monitor wrote it, it is damaged, or no store of the monitor.
        BusUnavailableError: it cannot be opened or written.
    """
    files = schema_files(schema or resources.files("monitor.bus.sqlite") / "schema")
    try:
        _open_and_upgrade(path, files)
    except UnicodeDecodeError as exc:
        # SQLite names what it has found in the schema, whatever that is by now.
        raise damaged(path, "its schema is no text") from exc
    except sqlite3.Error as exc:
        if is_damaged(exc):
            unsound = f"{path} is not a sound SQLite database: {exc}: {REPAIR}"
            raise BusSchemaError(unsound) from exc
        raise BusUnavailableError(f"{path} cannot be opened: {exc}") from exc


def newest_schema() -> int:
    """Return the version of the schema that a store has once it is open."""
    return max(schema_files(resources.files("monitor.bus.sqlite") / "schema"))


def schema_files(folder: Traversable) -> dict[int, str]:
    """Return the SQL of each version, in order."""
    files = {
        int(match[1]): entry.read_text("utf-8")
        for entry in folder.iterdir()
        if (match := _FILE_NAME.fullmatch(entry.name))
    }
    return dict(sorted(files.items()))


def _open_and_upgrade(path: Path, files: dict[int, str]) -> None:
    # Read-only, so that a foreign database is not even switched to another journal.
    with closing(connect_readonly(path)) as db:
        schema_of(db, path)
    db = connect(path)
    try:
        # First, because an upgrade would rewrite what can still be saved.
        refuse_damaged_pages(db, path)
        present = _number(db, "user_version")
        for version, sql in files.items():
            if version > present:
                _apply(db, version, sql)
                log.info("store schema applied", store=str(path), version=version)
    finally:
        db.close()


def schema_of(db: sqlite3.Connection, path: Path) -> int:
    """Return the schema of an open file, 0 where it is empty.

    Raises:
        BusSchemaError: it is newer than this version, or of another application.
    """
    tables = int(db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])
    if tables and _number(db, "application_id") != APPLICATION_ID:
        raise BusSchemaError(f"{path} is an SQLite database, but not a store of the monitor")
    present, newest = _number(db, "user_version"), newest_schema()
    if present > newest:
        raise BusSchemaError(
            f"{path} was written by a newer version of the monitor: its schema is {present}, "
            f"this version knows up to {newest}"
        )
    return present


def _apply(db: sqlite3.Connection, version: int, sql: str) -> None:
    try:
        # The version number is part of the transaction: an upgrade is whole or has not happened.
        db.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {version};\nCOMMIT;")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _number(db: sqlite3.Connection, pragma: str) -> int:
    return int(db.execute(f"PRAGMA {pragma}").fetchone()[0])
