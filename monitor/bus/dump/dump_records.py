"""The contents of a dump: tables, with the columns that both kinds of store have.

Numbers that a store gives by itself do not travel: rows come in their order. What is about the
store or its daemons (leases, instructions, the judgement of ages) stays.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

FORMAT = "dataprep-monitor dump"
SCHEMA = 2  # of the tables below: raised with each change of them
ROWS_AT_ONCE = 500

Row = tuple[Any, ...]


class StoreTable(StrEnum):
    """The tables, in the order of a dump: each after those that say where its rows go."""

    CONSUMER = "consumer"
    DEAD_LETTER = "dead_letter"
    EVENT = "event"
    RUN = "run"
    STATE_ENTRY = "state_entry"
    CALLBACK = "callback"
    CONSUMER_STATE = "consumer_state"
    STORE_ENTRY = "store_entry"  # of `DUMPED_TOPICS`, with the shard that is about no workspace


# Only the last column of a table may be binary.
COLUMNS: Mapping[StoreTable, tuple[str, ...]] = {
    StoreTable.CONSUMER: ("name", "position", "lost", "counted_until"),
    StoreTable.DEAD_LETTER: ("consumer", "position", "body"),
    StoreTable.EVENT: ("position", "id", "recorded_at", "epoch", "body"),
    StoreTable.RUN: (
        *("workspace", "kind", "id", "status", "created_at", "ended_at"),
        *("flow_run", "plan_run", "pipeline_id", "body"),
    ),
    StoreTable.STATE_ENTRY: ("workspace", "topic", "key", "value"),
    StoreTable.CALLBACK: ("workspace", "fingerprint", "received_at", "processed_at", "body"),
    StoreTable.CONSUMER_STATE: ("consumer", "key", "value"),
    StoreTable.STORE_ENTRY: ("topic", "key", "value"),
}


class ShardRow(NamedTuple):
    """A row, and the name of the shard that it belongs to."""

    shard: str
    row: Row


class Shard(Struct, frozen=True, kw_only=True):
    """A shard beside its rows. Without events ``oldest_position`` is the newest plus 1."""

    newest_position: int
    oldest_position: int
    log_epoch: int
    workspaces: dict[str, str]  # by name: the URL, empty where it is not known


Shards = Mapping[str, Shard]  # by name
Counts = dict[str, dict[StoreTable, int]]  # rows by shard and table


class DumpHeader(Struct, frozen=True, kw_only=True):
    """The first line of a dump."""

    format: str = FORMAT
    schema: int = SCHEMA
    version: str  # of the monitor that wrote it
    source: str  # sqlite or postgres
    taken_at: datetime
    shards: dict[str, Shard]


class DumpTrailer(Struct, frozen=True, kw_only=True):
    """The last line of a dump; ``sha256`` is of all lines before it, in hexadecimal."""

    counts: Counts
    sha256: str


class DumpSource(Protocol):
    """A snapshot of a store, which a daemon may change meanwhile. Raises `BusError`."""

    kind: str
    name: str  # for people

    async def shards(self) -> dict[str, Shard]: ...

    async def count(self) -> int:
        """Return how many rows there are."""

    def rows(self, table: StoreTable) -> AsyncIterator[ShardRow]:
        """Yield the rows of a table.

        Events of several shards in the order of their recording, those of one by position; states
        of consumers by consumer and key.
        """


class DumpTarget(Protocol):
    """A store within the one transaction of an import. Raises `BusError`."""

    async def begin(self, shards: Shards) -> None:
        """Make the shards, which are not there yet, or raise `ConfigurationError`."""

    async def write(self, table: StoreTable, rows: list[ShardRow]) -> None: ...

    async def count(self, table: StoreTable) -> int:
        """Return how many rows of these shards the store has now."""
