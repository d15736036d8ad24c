"""Daemons of one cluster in one process: real leases in a real database, time moved by the test.

A host of a test does with a shard no more than to remember that it has it, and to write one fenced
row. What a real host does is tested elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from prometheus_client import CollectorRegistry

from monitor.bus.postgres.connections.connecting import Connection, connect
from monitor.bus.postgres.connections.connector import PostgresConnector
from monitor.bus.postgres.connections.migrations import prepare
from monitor.bus.postgres.lease_manager import LeaseManager
from monitor.bus.postgres.leases.heartbeat import Heartbeat
from monitor.bus.postgres.leases.lease import RENEWALS, Lease, LeaseDeadline
from monitor.bus.postgres.postgres_metrics import LeaseMetrics
from monitor.bus.postgres_address import postgres_address
from monitor.bus.shards import (
    LeaseChange,
    ShardDefinition,
    ShardGranted,
    ShardReassigned,
    WorkspaceIdentity,
)
from tests.clocks import ManualClock

if TYPE_CHECKING:
    from monitor.bus.postgres.bus import PostgresBus

LEASE_SECONDS = 9.0
NAMES = tuple(f"workspace-{number}" for number in range(6))
_FENCED_WRITE = (
    "UPDATE shard SET newest_position = newest_position + 1"
    " WHERE number = $1 AND holder = $2 AND epoch = $3 RETURNING newest_position"
)


def shards(*names: str, digest: str = "d") -> list[ShardDefinition]:
    """Return shards of one workspace each."""
    return [
        ShardDefinition(
            name=name,
            workspaces=(WorkspaceIdentity(name=name, url=f"https://{name}.example"),),
            digest=digest,
        )
        for name in names
    ]


class LeaseOnly:
    """A bus that does nothing but to hold its lease."""

    instructions = None

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.shard = lease.shard
        self.is_closed = False
        self.may_close = asyncio.Event()  # a real bus writes first what it has accepted
        self.may_close.set()

    def may_publish(self) -> bool:
        return not self.is_closed and self.lease.may_publish()

    def lose(self, reason: str) -> None:
        self.lease.lose(reason)

    async def close(self) -> None:
        await self.may_close.wait()
        self.is_closed = True


class Member:
    """One daemon. Its boot time is what the test says; the server's clock runs as it does."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.boottime = 1_000.0
        self.clock = ManualClock()
        self.registry = CollectorRegistry()
        self.hosted: dict[str, LeaseOnly] = {}
        self.epochs: list[tuple[str, int]] = []  # of all grants
        self.fails_to_open: Exception | None = None
        self.may_open = asyncio.Event()  # what is read of a shard may take long
        self.may_open.set()
        self.notified = 0
        connector = PostgresConnector(
            address=postgres_address(url), password=None, lease_seconds=LEASE_SECONDS
        )
        metrics = LeaseMetrics(self.registry)
        self.heartbeat = Heartbeat(
            connector,
            daemon_id=name,
            version="1.0",
            url=None,
            deadline=LeaseDeadline(lease_seconds=LEASE_SECONDS, boottime=lambda: self.boottime),
            clock=self.clock,
            metrics=metrics,
        )
        self.leases = LeaseManager(
            self.heartbeat,
            open_buses=self._open,
            on_change=self._count_notice,
            clock=self.clock,
            metrics=metrics,
        )

    async def join(self, definitions: Sequence[ShardDefinition]) -> None:
        await self.heartbeat.register()
        await self.leases.define(definitions)

    async def cycle(self) -> None:
        """Run one cycle, in which the heartbeat is due."""
        self.boottime += LEASE_SECONDS / 4
        await self.clock.advance(LEASE_SECONDS / 4)
        await self.leases.cycle()

    async def changes(self) -> list[LeaseChange]:
        """Return what the host has to learn, as it would without waiting."""
        found: list[LeaseChange] = []
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(0):
                    found.append(await self.leases.grants.next_change())
        return found

    async def obey(self) -> list[LeaseChange]:
        """Do what a host does: host what is granted, release what is not its own any more."""
        changes = await self.changes()
        for change in changes:
            if isinstance(change, ShardGranted):
                bus = cast("LeaseOnly", change.bus)
                self.hosted[bus.shard] = bus
                self.epochs.append((bus.shard, bus.lease.epoch))
            else:
                self.hosted.pop(change.shard, None)
                await self.leases.release(change.shard)
        return changes

    def publishing(self) -> set[str]:
        """Return the shards whose states this daemon would publish right now."""
        return {shard for shard, bus in self.hosted.items() if bus.may_publish()}

    def reassigned(self, changes: Sequence[LeaseChange]) -> dict[str, str]:
        return {
            change.shard: change.by for change in changes if isinstance(change, ShardReassigned)
        }

    async def write(self, bus: LeaseOnly) -> bool:
        """Store one fenced row; False where the fence refused it."""
        lease = bus.lease
        connection = await self.heartbeat._connector.connect(purpose="test")
        try:
            position: Any = await connection.fetchval(
                _FENCED_WRITE, lease.number, lease.holder, lease.epoch
            )
        finally:
            connection.terminate()
        return position is not None

    async def leave(self) -> None:
        """End in order."""
        await self.leases.close()
        self.heartbeat.disconnect()
        self.hosted.clear()

    def kill(self) -> None:
        """End without a goodbye: connections break, and nothing is released."""
        self.heartbeat.disconnect()
        self.hosted.clear()

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"dataprep_monitor_{name}", labels) or 0.0

    async def _open(self, leases: Sequence[Lease]) -> Sequence[PostgresBus]:
        await self.may_open.wait()
        if self.fails_to_open is not None:
            raise self.fails_to_open
        return cast("Sequence[PostgresBus]", [LeaseOnly(lease) for lease in leases])

    def _count_notice(self) -> None:
        self.notified += 1


class LeaseCluster:
    """The members of a test, and what an administrator may see and change."""

    def __init__(self, url: str, connection: Connection) -> None:
        self.url = url
        self.connection = connection
        self.members: list[Member] = []

    async def join(self, name: str, *names: str, digest: str = "d") -> Member:
        member = Member(self.url, name)
        self.members.append(member)
        await member.join(shards(*(names or NAMES), digest=digest))
        return member

    async def expire(self, member: Member) -> None:
        """Let the member's lease run out, here and as the others have seen it; they renew."""
        member.boottime += LEASE_SECONDS
        await self.pass_lease(*(other for other in self.members if other is not member))

    async def pass_lease(self, *members: Member) -> None:
        """Let the time of a lease pass for members that renew and do nothing else."""
        for _ in range(RENEWALS):
            for member in members:
                member.boottime += LEASE_SECONDS / RENEWALS
                await member.clock.advance(LEASE_SECONDS / RENEWALS)
                await member.heartbeat.renew()

    async def be_away(self) -> None:
        """Let the time of a lease pass for all, in which the database does not answer."""
        for member in self.members:
            member.boottime += LEASE_SECONDS
            await member.clock.advance(LEASE_SECONDS)

    async def declare_gone(self, member: Member) -> None:
        """Let the others have found out that the member's lease has run out."""
        member.boottime += LEASE_SECONDS
        await self.connection.execute("UPDATE daemon SET is_gone = true WHERE id = $1", member.name)

    async def holders(self) -> dict[str, str | None]:
        rows = await self.connection.fetch("SELECT name, holder FROM shard")
        return {row["name"]: row["holder"] for row in rows}

    async def epochs(self) -> dict[str, int]:
        rows = await self.connection.fetch("SELECT name, epoch FROM shard")
        return {row["name"]: row["epoch"] for row in rows}

    async def calm_down(self) -> None:
        """Let everybody do all there is to do."""
        for _ in range(3):
            for member in self.members:
                await member.cycle()
                await member.obey()


async def prepare_database(url: str) -> Connection:
    """Bring a database to the newest schema, and return a connection to it."""
    connection = await connect(postgres_address(url), None, purpose="test", timeout_seconds=20.0)
    await prepare(connection)
    return connection


@contextlib.asynccontextmanager
async def lease_cluster(url: str) -> AsyncIterator[LeaseCluster]:
    """Yield a cluster without members on an empty database."""
    cluster = LeaseCluster(url, await prepare_database(url))
    try:
        yield cluster
    finally:
        for member in cluster.members:
            member.kill()
        cluster.connection.terminate()
