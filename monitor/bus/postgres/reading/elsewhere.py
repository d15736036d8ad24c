"""Reads shards that other daemons hold, and passes instructions to their holders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from monitor.bus.contract import StateEntry, StoredShard
from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.reader import PostgresReader
from monitor.bus.postgres.reading.stored_shard import PostgresStoredShard
from monitor.bus.postgres.writing.instruction_table import InstructionSender
from monitor.model.runs import RunState

_ENTRIES = (
    "SELECT state_entry.workspace, state_entry.topic, state_entry.key, state_entry.value"
    " FROM unnest($1::text[]) AS given (workspace), unnest($2::text[]) AS named (topic),"
    " LATERAL (SELECT * FROM state_entry WHERE state_entry.workspace = given.workspace"
    " AND state_entry.topic = named.topic) AS state_entry"
)
_ACTIVE = (
    "SELECT run.body FROM unnest($1::text[]) AS given (workspace), LATERAL (SELECT body FROM run"
    " WHERE run.workspace = given.workspace AND run.ended_at IS NULL"
    " ORDER BY created_at, number) AS run"
)
_STATES = (
    "SELECT shard.name, stored.key, stored.value FROM unnest($1::text[]) AS given (name)"
    " JOIN shard ON shard.name = given.name, LATERAL (SELECT key, value FROM consumer_state"
    " WHERE consumer_state.shard = shard.number AND consumer_state.consumer = $2) AS stored"
)
_NUMBERS = "SELECT name, number FROM shard WHERE name = ANY ($1::text[])"


class PostgresElsewhere:
    """Reads many shards by one query, on the reading connections."""

    def __init__(self, reader: PostgresReader, sender: InstructionSender) -> None:
        self._reader = reader
        self._sender = sender
        self.instruct = sender.instruct
        self.outcome = sender.outcome

    async def stored_shards(self, shards: Collection[str]) -> dict[str, StoredShard]:
        rows = await self._reader.fetch(_NUMBERS, list(map(codec.text, shards)))
        numbers = {codec.read_text(row["name"]): row["number"] for row in rows}
        return {
            name: PostgresStoredShard(name, number, self._reader)
            for name, number in numbers.items()
        }

    async def state_entries_of(
        self, workspaces: Collection[str], topics: Collection[str]
    ) -> list[StateEntry]:
        rows = await self._reader.fetch(
            _ENTRIES, list(map(codec.text, workspaces)), list(map(codec.text, topics))
        )
        return [
            StateEntry(
                workspace=codec.read_text(row["workspace"]),
                topic=codec.read_text(row["topic"]),
                key=codec.read_text(row["key"]),
                value=row["value"],
            )
            for row in rows
        ]

    async def active_runs_of(self, workspaces: Collection[str]) -> list[RunState]:
        rows = await self._reader.fetch(_ACTIVE, list(map(codec.text, workspaces)))
        return await codec.decode_all([row["body"] for row in rows], codec.decode_run)

    async def consumer_states(
        self, consumer: str, shards: Collection[str]
    ) -> dict[str, dict[str, bytes]]:
        rows = await self._reader.fetch(
            _STATES, list(map(codec.text, shards)), codec.text(consumer)
        )
        found: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
        for row in rows:
            found[codec.read_text(row["name"])][codec.read_text(row["key"])] = row["value"]
        return dict(found)
