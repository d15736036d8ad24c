"""What is carried from one store to another: its tables, with the columns that both kinds have.

Numbers that a store gives by itself are not carried; rows come in their order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

Row = tuple[Any, ...]


class StoreTable(StrEnum):
    """The tables, in the order in which they are copied."""

    EVENT = "event"
    RUN = "run"
    STATE_ENTRY = "state_entry"
    CALLBACK = "callback"
    CONSUMER_STATE = "consumer_state"
    DEAD_LETTER = "dead_letter"
    CONSUMER = "consumer"


COLUMNS: Mapping[StoreTable, tuple[str, ...]] = {
    StoreTable.EVENT: ("position", "id", "recorded_at", "body"),
    StoreTable.RUN: (
        *("workspace", "kind", "id", "status", "created_at", "ended_at"),
        *("flow_run", "plan_run", "pipeline_id", "body"),
    ),
    StoreTable.STATE_ENTRY: ("workspace", "topic", "key", "value"),
    StoreTable.CALLBACK: ("workspace", "fingerprint", "received_at", "processed_at", "body"),
    StoreTable.CONSUMER_STATE: ("consumer", "key", "value"),
    StoreTable.DEAD_LETTER: ("consumer", "position", "body"),
    StoreTable.CONSUMER: ("name", "position", "lost", "counted_until"),
}


class ShardRow(NamedTuple):
    """A row, and the name of the shard that it belongs to."""

    shard: str
    row: Row


class ShardEnd(NamedTuple):
    """What a shard has beside its rows. Without events ``oldest_position`` is the newest plus 1."""

    newest_position: int
    oldest_position: int
    log_epoch: int
    workspaces: Mapping[str, str]  # by name: the URL, empty where it is not known


class TransferSource(Protocol):
    """A store that no daemon runs on, and that nobody changes while it is read."""

    name: str  # for people, and the same in each attempt

    async def shards(self) -> dict[str, ShardEnd]:
        """Return the shards by name."""

    async def count(self, table: StoreTable) -> int:
        """Return how many rows a table has."""

    def rows(self, table: StoreTable) -> AsyncIterator[ShardRow]:
        """Yield the rows of a table in the same order each time.

        Events of several shards in the order of their recording, those of one by position; states
        of consumers by consumer and key.
        """


class TransferTarget(Protocol):
    """A store that is being filled, and that no daemon takes before it is finished."""

    name: str

    async def begin(
        self, source: str, shards: Mapping[str, Mapping[str, str]], *, log_epoch: int
    ) -> None:
        """Make the store, or continue with what an interrupted attempt has left.

        ``shards`` are the workspaces of each shard, with their URLs. All events, and those that
        follow, are of this ``log_epoch``.

        Raises:
            ConfigurationError: it holds something else.
        """

    async def done(self, table: StoreTable) -> int:
        """Return how many rows of the table are there already."""

    async def write(self, table: StoreTable, rows: list[ShardRow]) -> None:
        """Append rows; durable when it returns, and counted by `done`."""

    def rows(self, table: StoreTable) -> AsyncIterator[ShardRow]:
        """Yield what was stored, in any order."""

    async def finish(self, newest_positions: Mapping[str, int]) -> None:
        """Let daemons take the store."""


class TransferRouting(Protocol):
    """Decides where rows go. Without I/O, and the same in each attempt."""

    exact: frozenset[str]  # consumers whose state counts each event once

    def learn(self, alert: str, workspace: str) -> None:
        """Take note that an alert with this fingerprint is about that workspace."""

    def shard_of(self, shard: str, workspace: str) -> str:
        """Return where a row about that workspace goes."""

    def shards_of_consumer(self, shard: str, consumer: str) -> tuple[str, ...]:
        """Return where a consumer goes on."""

    def states(self, consumer: str, key: str, values: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return where one key of a consumer's state goes, and as what.

        ``values`` are those of the shards that have the key.
        """
