"""Writes a store into a dump, and a dump into an empty store."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path

import msgspec

from monitor.bus.dump.dump_file import DumpReader, writing
from monitor.bus.dump.dump_records import (
    ROWS_AT_ONCE,
    Counts,
    DumpHeader,
    DumpSource,
    DumpTarget,
    DumpTrailer,
    Row,
    Shard,
    ShardRow,
    Shards,
    StoreTable,
)
from monitor.bus.dump.numbering import Numbering
from monitor.bus.dump.routing import ConsumerStates, Place, RoutedRow, Routing
from monitor.model.errors import BusUnavailableError

# Called with how many rows, or bytes, are done.
OnProgress = Callable[[int], None]


async def export_store(
    source: DumpSource,
    path: Path,
    place: Place,
    states: ConsumerStates,
    *,
    version: str,
    now: datetime,
    on_progress: OnProgress,
) -> DumpTrailer:
    """Write what ``place`` lets pass into a dump, durable on return; nothing where it fails.

    Raises:
        BusError: the store cannot be read, or is damaged.
        LocalFileError: the file is there already, or cannot be written.
    """
    shards, done = await source.shards(), 0
    routing = Routing(source.name, shards, place, states)
    header = DumpHeader(
        version=version, source=source.kind, taken_at=now, shards=dict(_exported(shards, routing))
    )
    with writing(path, header) as writer:
        for table in StoreTable:
            async for shard, row in source.rows(table):
                for routed in routing.route(table, shard, row):
                    writer.add(table, ShardRow(routed.to, routed.row))
                done += 1
                if done % ROWS_AT_ONCE == 0:
                    on_progress(done)
                    await asyncio.sleep(0)  # where Ctrl-C is handled
        on_progress(done)
        return writer.finish()


def _exported(shards: Shards, routing: Routing) -> Iterator[tuple[str, Shard]]:
    for name, shard in shards.items():
        for to in routing.targets[name]:
            workspaces = {
                workspace: url
                for workspace, url in shard.workspaces.items()
                if routing.shard_of(name, workspace) == to
            }
            yield to, msgspec.structs.replace(shard, workspaces=workspaces)


class Import:
    """One import: `plan` reads the whole dump before `run` stores anything."""

    def __init__(self, reader: DumpReader, place: Place, states: ConsumerStates) -> None:
        self._reader = reader
        self._states = states
        shards = reader.header.shards
        self._routing = Routing(str(reader.path), shards, place, states)
        self._numbering = Numbering(shards, self._routing)

    def plan(self, on_progress: OnProgress) -> int:
        """Check the file, and number the events; return how many rows there are.

        ``on_progress`` is called with bytes of the file.

        Raises:
            LocalFileError: the file is cut off or damaged.
            BusSchemaError: a row in it is.
            ConfigurationError: logs that become one are not read by all who count.
        """
        rows = sum(1 for _ in self._reader.records(on_progress))
        for table, row in self._routed():
            if table is StoreTable.RUN:  # all that has a position came before
                break
            self._numbering.plan(table, row)
        self._numbering.shards(self._states.exact)
        return rows

    async def run(
        self, target: AbstractAsyncContextManager[DumpTarget], *, on_progress: OnProgress
    ) -> Counts:
        """Store everything in one transaction; return how many rows each shard has.

        Raises:
            BusError, ConfigurationError: as ``target`` does; nothing was stored.
        """
        shards, done = self._numbering.shards(self._states.exact), 0
        counts: Counts = {shard: {} for shard in shards}
        async with target as store:
            await store.begin(shards)
            for table, rows in self._pieces():
                await store.write(table, rows)
                for shard, _ in rows:
                    counts[shard][table] = counts[shard].get(table, 0) + 1
                done += len(rows)
                on_progress(done)
                await asyncio.sleep(0)  # where Ctrl-C is handled
            for table in StoreTable:
                written = sum(rows.get(table, 0) for rows in counts.values())
                if (stored := await store.count(table)) != written:
                    raise BusUnavailableError(
                        f"the store has {stored:,} rows of {table} instead of {written:,}; nothing "
                        "was stored"
                    )
        return counts

    def _routed(self) -> Iterator[tuple[StoreTable, RoutedRow]]:
        for table, (shard, row) in self._reader.records():
            for routed in self._routing.route(table, shard, row):
                yield table, routed

    def _stored(self) -> Iterator[tuple[StoreTable, ShardRow]]:
        """Yield all rows as they are stored."""
        for consumer in self._numbering.consumers():
            yield StoreTable.CONSUMER, consumer
        states: defaultdict[str, list[RoutedRow]] = defaultdict(list)  # of one key, by target
        key: Row = ()
        for table, routed in self._routed():
            if table is StoreTable.CONSUMER_STATE:
                if routed.row[:2] != key:
                    yield from self._joined(states)
                    states.clear()
                    key = routed.row[:2]
                states[routed.to].append(routed)
            elif (row := self._numbered(table, routed)) is not None:
                yield table, ShardRow(routed.to, row)
        yield from self._joined(states)

    def _numbered(self, table: StoreTable, routed: RoutedRow) -> Row | None:
        if table is StoreTable.CONSUMER:
            return None  # stored already
        if table is StoreTable.EVENT:
            return self._numbering.event(routed)
        if table is StoreTable.DEAD_LETTER:
            return self._numbering.letter(routed)
        return routed.row

    def _joined(self, states: dict[str, list[RoutedRow]]) -> Iterator[tuple[StoreTable, ShardRow]]:
        for to, rows in states.items():
            row = rows[0].row
            if len(rows) > 1:
                # That of the shard that it stays in goes first.
                rows.sort(key=lambda state: (state.shard != to, state.shard))
                consumer, key, _ = row
                values = [state.row[-1] for state in rows]
                row = (consumer, key, self._states.join(consumer, key, values))
            yield StoreTable.CONSUMER_STATE, ShardRow(to, row)

    def _pieces(self) -> Iterator[tuple[StoreTable, list[ShardRow]]]:
        """Yield all rows, some of one table at a time."""
        present, piece = StoreTable.CONSUMER, list[ShardRow]()
        for table, row in self._stored():
            if piece and (table is not present or len(piece) == ROWS_AT_ONCE):
                yield present, piece
                piece = []
            present = table
            piece.append(row)
        if piece:
            yield present, piece
