"""`ShardStore` on one PostgreSQL: what a daemon holds of it, and what it may do with all of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Self

import structlog
from prometheus_client import CollectorRegistry

from monitor.bus.contract import (
    Pruned,
    Received,
    Retention,
    StoredCallback,
    StoredRuns,
    StoreEntries,
)
from monitor.bus.postgres.bus import PostgresBus
from monitor.bus.postgres.connections import migrations
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.connector import PostgresConnector
from monitor.bus.postgres.connections.reader import PostgresReader
from monitor.bus.postgres.lease_manager import LeaseManager
from monitor.bus.postgres.leases.cluster import cluster_status
from monitor.bus.postgres.leases.heartbeat import Heartbeat
from monitor.bus.postgres.leases.lease import Lease, LeaseDeadline
from monitor.bus.postgres.leases.notifications import ClusterNews, Notice, Notifications
from monitor.bus.postgres.postgres_metrics import LeaseMetrics
from monitor.bus.postgres.reading.elsewhere import PostgresElsewhere
from monitor.bus.postgres.reading.stored_log import PostgresLog
from monitor.bus.postgres.reading.stored_runs import StoredPostgresRuns
from monitor.bus.postgres.writing.arrivals import learn_arrivals
from monitor.bus.postgres.writing.instruction_table import InstructionSender, learn_instructions
from monitor.bus.postgres.writing.leased_shard import LeasedShard
from monitor.bus.postgres.writing.lost_ends import LostEnds
from monitor.bus.postgres.writing.pruning import prune_all
from monitor.bus.postgres.writing.store_entries import PostgresEntries
from monitor.bus.postgres.writing.writer import PostgresWriter
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import (
    ClusterStatus,
    LeaseChange,
    ShardDefinition,
    ShardsElsewhere,
    StoreTimes,
)
from monitor.bus.trusted_time import JudgedTime
from monitor.model.clock import Clock
from monitor.model.errors import (
    BusLostError,
    BusUnavailableError,
    ConfigurationError,
    MonitorError,
)

log = structlog.get_logger()

_TIMES = (
    "SELECT clock_timestamp() AS now, judged_at, judged_next_at, judged_waits_seconds,"
    " coalesce(judged_at, (SELECT to_timestamp(max(event.recorded_at) / 1e6) FROM shard"
    " JOIN event ON event.shard = shard.number AND event.position = shard.newest_position))"
    " AS newest_at FROM store"
)
_KEEP_JUDGED = "UPDATE store SET judged_at = $1, judged_next_at = $2, judged_waits_seconds = $3"


class PostgresStore:
    """One daemon among those that share a database. Made by `open`.

    Owns the connections, the writer and the tasks; the leases belong to its `LeaseManager`.
    """

    def __init__(
        self,
        settings: StorageSettings,
        connector: PostgresConnector,
        heartbeat: Heartbeat,
        *,
        schema: int,
        metrics: LeaseMetrics,
        clock: Clock,
        registry: CollectorRegistry,
    ) -> None:
        self.schema = schema
        self._settings = settings
        self._heartbeat = heartbeat
        self._clock = clock
        self._writer = PostgresWriter(
            partial(connector.connect, purpose="writer"),
            daemon_id=heartbeat.myself.id,
            clock=clock,
            registry=registry,
            settings=settings,
            on_foreign=self._stored_elsewhere,
            answer_seconds=settings.lease_seconds * 2 / 3,
        )
        read_seconds = settings.read_timeout_seconds
        connect = partial(connector.connect, purpose="reader", statement_seconds=read_seconds)
        self._reader = PostgresReader(connect, timeout_seconds=read_seconds)
        self.entries: StoreEntries = PostgresEntries(
            self._writer, self._reader, timeout_seconds=settings.commit_timeout_seconds
        )
        self._lost_ends = LostEnds(self._writer, self._reader, clock=clock, settings=settings)
        self.stored_runs: StoredRuns = StoredPostgresRuns(self._reader)
        self._leases = LeaseManager(
            heartbeat,
            open_buses=self._open_buses,
            on_change=self._leases_changed,
            clock=clock,
            metrics=metrics,
        )
        self._notifications = Notifications(
            connector,
            sender=str(heartbeat.myself.incarnation),
            on_notice=self._on_notice,
            poll=self._poll,
            clock=clock,
        )
        self._sender = InstructionSender(
            connector,
            self._reader,
            self._notifications.news,
            daemon_id=heartbeat.myself.id,
            on_stored=self._instructed,
        )
        self.log = PostgresLog(self._reader, self._notifications.news)
        self.elsewhere: ShardsElsewhere | None = PostgresElsewhere(self._reader, self._sender)
        self._shards: dict[str, int] = {}  # workspace -> number of its shard
        self._tasks: list[asyncio.Task[None]] = []
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        settings: StorageSettings,
        *,
        version: str,
        url: str | None,
        clock: Clock,
        registry: CollectorRegistry,
        deadline: LeaseDeadline | None = None,
    ) -> Self:
        """Connect, bring the database to the newest schema, and register this daemon.

        ``url`` is that of this daemon's page. ``deadline`` is given by tests only.

        Raises:
            BusLockedError: another daemon uses the name of this one.
            BusSchemaError: the server is too old, a newer monitor wrote the database, or it has
                tables of another application.
            BusUnavailableError: no primary can be reached.
            ConfigurationError: the database refuses the user, or a pooler is between.
        """
        address = settings.postgres
        if address is None:
            raise ConfigurationError("storage.url names no PostgreSQL database")
        connector = PostgresConnector(
            address=address, password=settings.password, lease_seconds=settings.lease_seconds
        )
        connection = await connector.connect(purpose="schema", statement_seconds=60.0)
        try:
            schema = await migrations.prepare(connection)
        finally:
            connection.terminate()
        metrics = LeaseMetrics(registry)
        heartbeat = Heartbeat(
            connector,
            daemon_id=settings.daemon_id,
            version=version,
            url=url,
            deadline=deadline or LeaseDeadline(lease_seconds=settings.lease_seconds),
            clock=clock,
            metrics=metrics,
        )
        try:
            await heartbeat.register()
        except BaseException:
            heartbeat.disconnect()
            raise
        store = cls(
            settings,
            connector,
            heartbeat,
            schema=schema,
            metrics=metrics,
            clock=clock,
            registry=registry,
        )
        store._start()
        log.info("store opened", store=str(address), schema=schema, daemon=settings.daemon_id)
        return store

    def _start(self) -> None:
        runs: Mapping[str, Coroutine[Any, Any, None]] = {
            "leases": self._leases.run(),
            "lease deadline": self._leases.watch_deadline(),
            "store writer": self._writer.watch(),
            "notifications": self._notifications.run(),
        }
        for name, run in runs.items():
            task = asyncio.create_task(run, name=name)
            task.add_done_callback(self._on_end)
            self._tasks.append(task)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """None of the tasks ends by itself; without it this daemon must not go on."""
        if task.cancelled() or self._ended.done():
            return
        cause = task.exception()
        if isinstance(cause, MonitorError):
            lost: Exception = BusLostError(str(cause))
        else:
            lost = BusLostError(f"the task {task.get_name()} of the store has failed: {cause}")
        lost.__cause__ = cause
        self._ended.set_exception(lost)

    # --- what a store is ---

    @property
    def daemon_id(self) -> str:
        return self._heartbeat.myself.id

    @property
    def news(self) -> ClusterNews:
        """Wakes those who show the shards of other daemons."""
        return self._notifications.news

    @property
    def away_since(self) -> datetime | None:
        return self._heartbeat.away_since

    async def define(self, definitions: Sequence[ShardDefinition]) -> None:
        await self._leases.define(definitions)
        self._shards = {
            workspace.name: self._leases.definitions[definition.name].number
            for definition in definitions
            for workspace in definition.workspaces
        }

    async def next_change(self) -> LeaseChange:
        return await self._leases.grants.next_change()

    async def await_first_shards(self) -> None:
        await self._leases.grants.await_first()

    async def release(self, shard: str) -> None:
        await self._leases.release(shard)

    async def give_up(self, shard: str, cause: BaseException) -> None:
        """As the contract says; never raises ``cause``, since a daemon may come that can."""
        await self._leases.give_up(shard, cause)

    async def drain(self) -> None:
        await self._leases.drain()

    async def receive(
        self, callback: StoredCallback, *, inbox_bound: int, timeout_seconds: float
    ) -> Received:
        number = self._shards.get(callback.workspace)
        if number is None:
            raise BusUnavailableError(f"no shard is known of workspace {callback.workspace}")
        return await self._writer.receive(
            callback, number, inbox_bound=inbox_bound, timeout_seconds=timeout_seconds
        )

    async def prune(self, retention: Retention, *, now: datetime) -> Mapping[str, Pruned]:
        return await prune_all(self._writer, self._reader, self._buses(), retention, now=now)

    async def times(self) -> StoreTimes:
        (row,) = await self._reader.fetch(_TIMES)
        now, at, next_at, waits_seconds, newest_at = row.values()
        if next_at is None:  # an earlier version has judged, or none
            judged = None if newest_at is None else JudgedTime.first(newest_at)
            return StoreTimes(now=now, judged=judged)
        judged = JudgedTime(at=at, next_at=next_at, waits_seconds=waits_seconds)
        return StoreTimes(now=now, judged=judged)

    async def keep_judged(self, judged: JudgedTime) -> None:
        # Not by the connection of leases: no renewal may wait for it.
        if buses := self._buses():
            await self._writer.run(
                partial(_keep_judged, judged=judged),
                [buses[0].leased],
                timeout_seconds=self._settings.commit_timeout_seconds,
            )

    async def probe(self, *, timeout_seconds: float) -> None:
        await self._writer.probe(timeout_seconds=timeout_seconds)

    async def cluster(self) -> ClusterStatus | None:
        return await cluster_status(
            self._reader, this=self.daemon_id, lease_seconds=self._settings.lease_seconds
        )

    async def watch(self) -> None:
        await asyncio.shield(self._ended)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._sender.stop()
        await self._leases.close()
        await self._writer.close()
        with contextlib.suppress(BusUnavailableError):  # others find it at their next cycle
            await self._heartbeat.run(self._notifications.send)
        self._heartbeat.disconnect()
        await self._reader.close()
        if not self._ended.done():
            self._ended.set_result(None)
        log.info("store closed", store=str(self._settings.postgres))

    # --- between its parts ---

    def _buses(self) -> list[PostgresBus]:
        return [grant.bus for grant in self._leases.grants.all()]

    async def _open_buses(self, leases: Sequence[Lease]) -> Sequence[PostgresBus]:
        buses = await PostgresBus.open_many(
            leases,
            writer=self._writer,
            reader=self._reader,
            clock=self._clock,
            settings=self._settings,
        )
        try:
            await self._lost_ends.check([bus.leased for bus in buses])
        except BaseException:
            for bus in buses:
                self._writer.abandon(bus.leased, "it is not known whether its log went back")
            raise
        for bus in buses:
            bus.instructions.on_finished = self._instructed
        return buses

    def _instructed(self) -> None:
        """Wake the holder of an instruction, or who waits for its outcome."""
        self._notifications.notify(Notice.INSTRUCTION)

    def _leases_changed(self) -> None:
        self._notifications.notify(Notice.LEASES)

    def _stored_elsewhere(self, _shard_number: int) -> None:
        self._notifications.notify(Notice.INBOX)

    def _on_notice(self, notice: Notice) -> None:
        # A callback or an instruction is found by the poll that follows.
        if notice is Notice.LEASES:
            self._leases.wake()

    async def _poll(self, notices: Collection[Notice]) -> None:
        if Notice.INBOX in notices:
            for shard in await learn_arrivals(self._reader, self._buses()):
                self._leases.grants.callbacks_arrived(shard)
        if Notice.INSTRUCTION in notices:
            await learn_instructions(self._reader, [bus.instructions for bus in self._buses()])


async def _keep_judged(
    connection: Connection, _shards: Sequence[LeasedShard], *, judged: JudgedTime
) -> None:
    await connection.execute(_KEEP_JUDGED, judged.at, judged.next_at, judged.waits_seconds)
