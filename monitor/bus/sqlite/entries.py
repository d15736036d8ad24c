"""`StoreEntries` on the file: written by its one writer, read beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from monitor.bus.contract.store_entries import (
    AFTER_ALL_KEYS,
    ENTRIES_BOUND,
    READ_BOUND,
    check_entries,
    full,
)
from monitor.bus.sqlite.connection import StoreConnection
from monitor.bus.sqlite.pruning import PIECE
from monitor.bus.sqlite.reader import StoreReader
from monitor.bus.sqlite.writer import StoreWriter


class _Put(NamedTuple):
    topic: str
    entries: dict[str, bytes | None]


class _Cut(NamedTuple):
    topic: str
    before: str


class SqliteEntries:
    """The entries of one file."""

    def __init__(self, writer: StoreWriter, reader: StoreReader, *, timeout_seconds: float) -> None:
        """``timeout_seconds`` is that of each piece that `drop_before` removes."""
        self._writer = writer
        self._reader = reader
        self._timeout_seconds = timeout_seconds

    async def get(self, topic: str, key: str) -> bytes | None:
        return await self._reader.run(partial(_get, topic=topic, key=key))

    async def newest(
        self, topic: str, *, before: str | None = None, limit: int
    ) -> list[tuple[str, bytes]]:
        until = AFTER_ALL_KEYS if before is None else before
        return await self._reader.run(
            partial(_newest, topic=topic, before=until, limit=min(limit, READ_BOUND))
        )

    async def put(
        self, topic: str, entries: Mapping[str, bytes | None], *, timeout_seconds: float
    ) -> None:
        check_entries(topic, entries)
        put = _Put(topic, dict(entries))
        await self._writer.write(_put_all, put, timeout_seconds=timeout_seconds)

    async def drop_before(self, topic: str, key: str) -> int:
        removed, cut = 0, _Cut(topic, key)
        while piece := await self._writer.write(
            _cut_all, cut, timeout_seconds=self._timeout_seconds
        ):
            removed += piece
        return removed


def _get(db: StoreConnection, topic: str, key: str) -> bytes | None:
    row = db.execute(
        "SELECT value FROM store_entry WHERE topic = ? AND key = ?", (topic, key)
    ).fetchone()
    return None if row is None else bytes(row[0])


def _newest(db: StoreConnection, topic: str, before: str, limit: int) -> list[tuple[str, bytes]]:
    return db.execute(
        "SELECT key, value FROM store_entry WHERE topic = ? AND key < ? ORDER BY key DESC LIMIT ?",
        (topic, before, limit),
    ).fetchall()


def _put_all(db: StoreConnection, puts: Sequence[_Put]) -> list[None]:
    for put in puts:
        _put(db, put)
    return [None] * len(puts)


def _put(db: StoreConnection, put: _Put) -> None:
    for key, value in put.entries.items():
        if value is None:
            db.execute("DELETE FROM store_entry WHERE topic = ? AND key = ?", (put.topic, key))
    kept = [(put.topic, key, value) for key, value in put.entries.items() if value is not None]
    if not kept:
        return
    db.executemany(
        "INSERT INTO store_entry (topic, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (topic, key) DO UPDATE SET value = excluded.value",
        kept,
    )
    counted = db.execute("SELECT count(*) FROM store_entry WHERE topic = ?", (put.topic,))
    if counted.fetchone()[0] > ENTRIES_BOUND:
        raise full(put.topic)


def _cut_all(db: StoreConnection, cuts: Sequence[_Cut]) -> list[int]:
    return [
        db.execute(
            "DELETE FROM store_entry WHERE rowid IN (SELECT rowid FROM store_entry"
            " WHERE topic = ? AND key < ? ORDER BY key LIMIT ?)",
            (cut.topic, cut.before, PIECE),
        ).rowcount
        for cut in cuts
    ]
