"""A shard of PostgreSQL for tests: claimed without a daemon, by what a claim does to its row."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Self

import asyncpg
from prometheus_client import CollectorRegistry

from monitor.bus.postgres.bus import PostgresBus
from monitor.bus.postgres.connections import migrations
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.reader import PostgresReader
from monitor.bus.postgres.leases.lease import Lease, LeaseDeadline
from monitor.bus.postgres.writing.writer import PostgresWriter
from monitor.bus.settings import StorageSettings
from monitor.model.clock import boottime
from tests.clocks import ManualClock
from tests.postgres_server import PostgresServer

_CLAIM = (
    "INSERT INTO shard (name, holder, epoch) VALUES ($1, $2, 1) ON CONFLICT (name)"
    " DO UPDATE SET holder = excluded.holder, epoch = shard.epoch + 1 RETURNING number, epoch"
)
_READ_SECONDS = 30.0
_LEASE_SECONDS = 3_600.0
_templates: dict[int, str] = {}  # of each server, by its port: a database with the schema


async def new_database(server: PostgresServer) -> str:
    """Return the name of a database with the newest schema and nothing else."""
    if server.port not in _templates:
        template = await server.create_database()
        connection = await connect(server.url(template))
        await migrations.prepare(connection)
        await connection.close()
        _templates[server.port] = template
    return await server.create_database(template=_templates[server.port])


async def connect(url: str) -> Connection:
    return await asyncpg.connect(url, ssl=False)


class TestDaemon:
    """The writer and the reader of one daemon, and the leases that it says it has."""

    __test__ = False

    def __init__(
        self,
        url: str,
        *,
        name: str = "daemon",
        writer_url: str | None = None,
        clock: ManualClock | None = None,
        settings: StorageSettings | None = None,
        answer_seconds: float = 6.0,
    ) -> None:
        """``writer_url`` leads to the same database by another way, such as a relay."""
        self.url = url
        self.name = name
        self.clock = clock or ManualClock()
        self.settings = settings or StorageSettings()
        self.registry = CollectorRegistry()
        self.foreign: list[int] = []
        self.deadline = LeaseDeadline(lease_seconds=_LEASE_SECONDS)
        self.deadline.renewed(boottime())
        self.writer = PostgresWriter(
            partial(connect, writer_url or url),
            daemon_id=name,
            clock=self.clock,
            registry=self.registry,
            settings=self.settings,
            on_foreign=self.foreign.append,
            answer_seconds=answer_seconds,
        )
        self.reader = PostgresReader(partial(connect, url), timeout_seconds=_READ_SECONDS)

    async def claim(self, shard: str = "shard") -> Lease:
        """Take the shard, as after a takeover or at its first start."""
        connection = await connect(self.url)
        row = await connection.fetchrow(_CLAIM, shard, self.name)
        await connection.close()
        assert row is not None
        return Lease(
            shard=shard,
            number=row["number"],
            holder=self.name,
            epoch=row["epoch"],
            deadline=self.deadline,
        )

    async def open(self, shard: str = "shard") -> PostgresBus:
        return await self.open_claimed(await self.claim(shard))

    async def open_claimed(self, lease: Lease) -> PostgresBus:
        return await PostgresBus.open(
            lease,
            writer=self.writer,
            reader=self.reader,
            clock=self.clock,
            settings=self.settings,
            consumer_grace_seconds=0.0,
        )

    async def close(self) -> None:
        await self.writer.close()
        await self.reader.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class SoleBus(PostgresBus):
    """The only shard of its daemon, which ends with it."""

    daemon: TestDaemon

    async def close(self) -> None:
        await super().close()
        await self.daemon.close()


async def open_postgres(server: PostgresServer, folder: Path, clock: ManualClock) -> PostgresBus:
    """Open the shard of the database that belongs to the folder, which is made at first."""
    named = folder / "database"
    if not named.exists():
        named.write_text(await new_database(server))
    daemon = TestDaemon(server.url(named.read_text()), clock=clock)
    bus = await SoleBus.open(
        await daemon.claim(),
        writer=daemon.writer,
        reader=daemon.reader,
        clock=clock,
        settings=daemon.settings,
        consumer_grace_seconds=0.0,
    )
    bus.daemon = daemon
    return bus
