"""The database of a cluster: a primary and its synchronous standby, which may change places."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Self

import asyncpg
from msgspec import Struct

from monitor.bus.postgres.connections import migrations
from monitor.model.clock import boottime
from tests.crash.cluster.networks import Network
from tests.crash.cluster.server_disk import ServerWithDisk
from tests.postgres_server import PostgresServer
from tests.set_clock import SetClock

NAME = "monitor"
# What only the holder of a shard writes; any daemon may put callbacks into an inbox.
_HELD_TABLES = "event", "run", "state_entry", "consumer", "consumer_state", "dead_letter"
_CALLBACKS = "callback"
# What was taken up by a program of the other version shows in a shard's log beside each other; a
# run that the older one has changed keeps the newer one's column, and not its body.
_BY_VERSION = (
    "SELECT count(*) FILTER (WHERE NOT is_newer) AS stored_by_older,"
    " count(*) FILTER (WHERE is_newer) AS stored_by_newer,"
    " count(*) FILTER (WHERE is_newer <> was_newer) AS taken_up_by_the_other"
    " FROM (SELECT ({newer}) AS is_newer,"
    " lag({newer}) OVER (PARTITION BY shard ORDER BY position) AS was_newer FROM event) AS event"
)


class LeaseChange(Struct, frozen=True):
    """A shard's row as it was from an instant on."""

    at: float
    shard: str
    holder: str | None
    epoch: int


class Database:
    """Two servers; at any time one takes writes."""

    def __init__(self, *roles: str, sets_clocks: bool = False, fills_disks: bool = False) -> None:
        self._roles = roles
        kind = ServerWithDisk if fills_disks else PostgresServer
        self._servers = {0: kind()}
        self._primary = 0
        self._names = 0
        self._replication: Network | None = None  # between standby and primary
        self.promotions = 0
        self._clocks: dict[int, SetClock] = {}  # by the port of a server
        self._sets_clocks = sets_clocks
        self.schema = self._first_schema = 0

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(server.port for server in self._servers.values())

    @property
    def primary(self) -> PostgresServer:
        return self._servers[self._primary]

    @property
    def standby(self) -> PostgresServer:
        return self._servers[1 - self._primary]

    async def __aenter__(self) -> Self:
        self._give_clock(self.primary)
        await self.primary.start()
        for role in self._roles:
            await self.primary.create_role(role, rights="SUPERUSER")
        await self.primary.execute(f"CREATE DATABASE {NAME}")
        await self._prepare()
        await self._add_standby()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in self._servers.values():
            server.discard()
        await self._end_replication()

    async def leases(self) -> list[LeaseChange]:
        """Return who held what since when, oldest first."""
        rows = await self.primary.fetch(
            "SELECT at, shard, holder, epoch FROM audit.lease ORDER BY at", database=NAME
        )
        started_at = time.time() - boottime()
        return [LeaseChange(**{**dict(row), "at": started_at + row["at"]}) for row in rows]

    async def foreign_writes(self) -> list[str]:
        """Return the writes of daemons to what they did not hold."""
        rows = await self.primary.fetch(
            "SELECT writer, holder, shard, relation, operation, count(*) AS times"
            " FROM audit.foreign_write GROUP BY 1, 2, 3, 4, 5",
            database=NAME,
        )
        return [str(dict(row)) for row in rows]

    async def fingerprints(self) -> set[tuple[str, str]]:
        """Return workspace and fingerprint of every callback, processed or not."""
        rows = await self.primary.fetch(
            "SELECT workspace, fingerprint FROM callback", database=NAME
        )
        return {(row["workspace"], row["fingerprint"]) for row in rows}

    async def holders(self) -> dict[str, str | None]:
        """Return who holds each shard, as the database has it now."""
        rows = await self.primary.fetch("SELECT name, holder FROM shard", database=NAME)
        return {row["name"]: row["holder"] for row in rows}

    async def newest_positions(self) -> dict[str, int]:
        """Return up to where the log of each shard goes."""
        rows = await self.primary.fetch("SELECT name, newest_position FROM shard", database=NAME)
        return {row["name"]: row["newest_position"] for row in rows}

    async def events_by_version(self) -> dict[str, int]:
        """Return events by what has stored them: programs of this version, of newer ones."""
        if self.schema == self._first_schema:
            return {}
        newer = " OR ".join(
            f"later{version} IS NOT NULL"
            for version in range(self._first_schema + 1, self.schema + 1)
        )
        (row,) = await self.primary.fetch(_BY_VERSION.format(newer=newer), database=NAME)
        return dict(row)

    def hold_replication(self) -> None:
        """Let the standby fall behind: the primary answers no commit any more."""
        assert self._replication is not None
        self._replication.hold()

    def release_replication(self) -> None:
        assert self._replication is not None
        self._replication.release()

    async def promote(self) -> None:
        """Kill the primary, and let the standby take its place with what it has."""
        await self.primary.kill()
        await self._end_replication()
        self._primary = 1 - self._primary
        await self.primary.promote()
        # None is there, and a promoted one goes on alone.
        await self.primary.commit_synchronously()
        self.promotions += 1

    async def promote_beside(self) -> None:
        """Let the standby take the primary's place, which lives on and answers no commit."""
        self.hold_replication()
        self._primary = 1 - self._primary
        await self.primary.promote()
        await self.primary.commit_synchronously()
        self.promotions += 1

    async def retire_old(self) -> None:
        """Kill the server that was the primary before."""
        await self.standby.kill()
        await self._end_replication()

    async def replace_standby(self) -> None:
        """Make a standby in the place of the server that failed."""
        self.standby.discard()
        await self._add_standby()

    async def _prepare(self) -> None:
        """Make the tables, and let the database itself keep who holds what and who writes."""
        connection = await asyncpg.connect(self.primary.url(NAME), ssl=False)
        try:
            self.schema = self._first_schema = await migrations.prepare(connection)
            statements = Path(__file__).with_name("audit.sql").read_text()
            for table in _HELD_TABLES:
                statements += _trigger(table, "INSERT OR UPDATE OR DELETE")
            await connection.execute(statements + _trigger(_CALLBACKS, "UPDATE OR DELETE"))
        finally:
            await connection.close()

    async def _add_standby(self) -> None:
        self._names += 1
        name = f"standby{self._names}"
        self._replication = await Network(self.primary.port).__aenter__()
        self._servers[1 - self._primary] = await self.primary.create_standby(
            name, port=self._replication.port
        )
        self._give_clock(self.standby)
        await self.standby.start()
        await self.primary.commit_synchronously(name)

    def set_clock(self, seconds: float) -> None:
        """Let the clocks of both servers be ahead by so many seconds, or behind."""
        for server in self._servers.values():
            self._clocks[server.port].ahead_by(seconds)

    def set_clock_of_standby(self, seconds: float) -> None:
        """Let the standby be on a host with another clock."""
        self._clocks[self.standby.port].ahead_by(seconds)

    def _give_clock(self, server: PostgresServer) -> None:
        if self._sets_clocks:
            server.folder.mkdir(exist_ok=True)
            clock = self._clocks[server.port] = SetClock(server.folder / "clock")
            server.variables = [f"{name}={value}" for name, value in clock.environment.items()]

    async def _end_replication(self) -> None:
        network, self._replication = self._replication, None
        if network is not None:
            await network.__aexit__(None, None, None)


def _trigger(table: str, operations: str) -> str:
    return (
        f"CREATE TRIGGER note_write AFTER {operations} ON {table} FOR EACH ROW"
        " EXECUTE FUNCTION audit.note_write();\n"
    )
