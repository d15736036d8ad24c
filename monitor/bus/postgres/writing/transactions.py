"""Executes the jobs of one kind in one transaction.

A transaction is executed until it is known how it ended. `execute` leaves its answer here, and
`conclude` brings memory up to date, once what it has written is durable. Where the answer of a
fenced one was lost the writer finds out by the shards' rows whether that is so, and `recover` reads
the answer. One without a fence is executed again, because it stores nothing twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Protocol, runtime_checkable

from asyncpg import exceptions as server_errors

from monitor.bus.contract import Received
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.writing import statements
from monitor.bus.postgres.writing.batch import Identity, StoredId, WriteBatch, callback_values
from monitor.bus.postgres.writing.inbox_bounds import ForeignInboxes, refusals
from monitor.bus.postgres.writing.leased_shard import LeasedShard
from monitor.bus.postgres.writing.rows import CallbackRow
from monitor.bus.write_queue import WriteGroup

Work = Callable[[Connection, Sequence[LeasedShard]], Awaitable[Any]]

_STORED_IDS = (
    "SELECT event.shard, event.id FROM unnest($1::int[], $2::text[]) AS given (shard, id)"
    " JOIN event ON event.id = given.id AND event.shard = given.shard"
)
_STORED_CALLBACKS = (
    "SELECT callback.id, callback.workspace, callback.fingerprint"
    " FROM unnest($1::text[], $2::text[], $3::bigint[]) AS given (workspace, fingerprint, at)"
    " JOIN callback ON callback.workspace = given.workspace"
    " AND callback.fingerprint = given.fingerprint AND callback.received_at = given.at"
    " WHERE callback.received_by = $4"
)
_PROBE = (
    "INSERT INTO probe (daemon, probed_at) VALUES ($1, clock_timestamp())"
    " ON CONFLICT (daemon) DO UPDATE SET probed_at = excluded.probed_at"
)


class Transaction(Protocol):
    """One kind of transaction."""

    @property
    def shards(self) -> Collection[LeasedShard]:
        """The shards whose fence it has, if any."""

    async def execute(self, connection: Connection) -> None:
        """Return once it is durable."""

    def conclude(self) -> Collection[int]:
        """Give each job its result; return the numbers of the shards that were held."""


@runtime_checkable
class FencedTransaction(Transaction, Protocol):
    """One for whose shards can be found out whether it was kept."""

    async def recover(self, connection: Connection, held: Collection[int], /) -> None:
        """Read again what `execute` would have answered; it was kept for these shards."""


class StoreRows:
    """Changes and steps of any number of shards, by one statement."""

    def __init__(self, jobs: WriteGroup, *, daemon_id: str) -> None:
        self._jobs = jobs
        self._daemon_id = daemon_id
        self._batch = WriteBatch(jobs, daemon_id=daemon_id)
        self._held: Collection[int] = ()
        self._stored: dict[Identity, int] = {}

    @property
    def shards(self) -> Collection[LeasedShard]:
        return self._batch.shards.values()

    async def execute(self, connection: Connection) -> None:
        refused = await self._refusals(connection)
        if refused:
            self._rebuild(refused=refused)
        if not self._batch.jobs:
            return
        try:
            await self._write(connection)
        except server_errors.UniqueViolationError:
            # Rare, so which events are stored already is read only then. Nothing was kept.
            stored = await self._stored_ids(connection)
            if not stored:
                raise
            self._rebuild(refused=refused, stored_ids=stored)
            await self._write(connection)

    def _rebuild(
        self, *, refused: dict[Identity, Received], stored_ids: Collection[StoredId] = ()
    ) -> None:
        self._batch = WriteBatch(
            self._jobs, daemon_id=self._daemon_id, refused=refused, stored_ids=stored_ids
        )

    async def _refusals(self, connection: Connection) -> dict[Identity, Received]:
        waiting = [row for row in self._batch.callbacks if row.processed_at is None]
        if not waiting:
            return {}
        inboxes = {row.workspace: self._batch.shards[row.shard].arrivals for row in waiting}
        names = {row.workspace: row.callback.workspace for row in waiting}
        return await refusals(
            connection, waiting, lambda workspace: inboxes[workspace].size(names[workspace])
        )

    async def _write(self, connection: Connection) -> None:
        statement, values = self._batch.statement()
        answers = await connection.fetch(statement, *values)
        self._held = {row["number"] for row in answers if row["number"] is not None}
        self._stored = {
            (row["workspace"], row["fingerprint"]): row["id"]
            for row in answers
            if row["number"] is None
        }

    async def _stored_ids(self, connection: Connection) -> set[StoredId]:
        ids = self._batch.event_ids
        numbers, texts = [number for number, _ in ids], [text for _, text in ids]
        found = await connection.fetch(_STORED_IDS, numbers, texts)
        return {(row["shard"], row["id"]) for row in found}

    async def recover(self, connection: Connection, held: Collection[int]) -> None:
        self._held = held
        self._stored = await stored_callbacks(connection, self._batch.callbacks, self._daemon_id)

    def conclude(self) -> Collection[int]:
        self._batch.conclude(self._held, self._stored)
        return self._held


class RunWork:
    """One job alone, in a transaction of several statements."""

    def __init__(
        self, work: Work, shards: Sequence[LeasedShard], on_kept: Callable[[Any], None] | None
    ) -> None:
        """``on_kept`` brings memory up to date with the result, before its caller goes on."""
        self.shards: Collection[LeasedShard] = shards
        self.result: Any = None
        self._work = work
        self._on_kept = on_kept
        self._held: Collection[int] = ()

    async def execute(self, connection: Connection) -> None:
        async with connection.transaction():
            answers = await connection.fetch(
                statements.FENCE,
                [shard.number for shard in self.shards],
                [shard.lease.epoch for shard in self.shards],
                [shard.last_transaction for shard in self.shards],
                [shard.tail.newest for shard in self.shards],
                next(shard.lease.holder for shard in self.shards),
            )
            self._held = {row["number"] for row in answers}
            held = [shard for shard in self.shards if shard.number in self._held]
            if held:
                self.result = await self._work(connection, held)

    async def recover(self, _connection: Connection, held: Collection[int]) -> None:
        self._held = held  # the result was there before the COMMIT

    def conclude(self) -> Collection[int]:
        for shard in self.shards:
            if shard.number in self._held:
                shard.last_transaction += 1
        if self._held and self._on_kept is not None:
            self._on_kept(self.result)
        return self._held


class RunUnfenced:
    """One job alone, about no shard: executed again, it stores the same."""

    def __init__(self, work: Work) -> None:
        self.shards: Collection[LeasedShard] = ()
        self.result: Any = None
        self._work = work

    async def execute(self, connection: Connection) -> None:
        async with connection.transaction():
            self.result = await self._work(connection, ())

    def conclude(self) -> Collection[int]:
        return ()


class ReceiveForeign:
    """Callbacks of shards that others may hold: storing the same again finds it there."""

    def __init__(
        self,
        jobs: WriteGroup,
        *,
        daemon_id: str,
        inboxes: ForeignInboxes,
        on_stored: Callable[[CallbackRow, int], None],
    ) -> None:
        """``on_stored`` is called with each callback that was stored, and its id."""
        self.shards: Collection[LeasedShard] = ()
        self._jobs = jobs
        self._daemon_id = daemon_id
        self._inboxes = inboxes
        self._on_stored = on_stored
        self._refused: dict[Identity, Received] = {}
        self._stored: dict[Identity, int] = {}

    async def execute(self, connection: Connection) -> None:
        rows: list[CallbackRow] = [job.given for job in self._jobs]
        await self._inboxes.count(connection, rows)
        self._refused = await refusals(connection, rows, self._inboxes.size)
        taken = {row.identity: row for row in rows if row.identity not in self._refused}
        if not taken:
            return
        values = [callback_values(row, self._daemon_id) for row in taken.values()]
        answers = await connection.fetch(
            statements.unfenced_arrivals(), *statements.columns_of(values)
        )
        self._stored = {(row["workspace"], row["fingerprint"]): row["id"] for row in answers}

    def conclude(self) -> Collection[int]:
        answered: set[Identity] = set()
        for job in self._jobs:
            row: CallbackRow = job.given
            if (refusal := self._refused.get(row.identity)) is not None:
                job.result = refusal
            elif row.identity not in self._stored or row.identity in answered:
                job.result = Received.DUPLICATE
            else:
                answered.add(row.identity)
                job.result = Received.STORED
                self._inboxes.stored(row)
                self._on_stored(row, self._stored[row.identity])
        return ()


class Probe:
    """Stores a value that is never read."""

    def __init__(self, daemon_id: str) -> None:
        self.shards: Collection[LeasedShard] = ()
        self._daemon_id = daemon_id

    async def execute(self, connection: Connection) -> None:
        await connection.execute(_PROBE, self._daemon_id)

    def conclude(self) -> Collection[int]:
        return ()


async def stored_callbacks(
    connection: Connection, rows: Sequence[CallbackRow], daemon_id: str
) -> dict[Identity, int]:
    """Return the ids of those that this daemon has stored."""
    if not rows:
        return {}
    found = await connection.fetch(
        _STORED_CALLBACKS,
        [row.workspace for row in rows],
        [row.fingerprint for row in rows],
        [row.received_at for row in rows],
        daemon_id,
    )
    return {(row["workspace"], row["fingerprint"]): row["id"] for row in found}
