"""Examines a database: can it be the store, and would it keep what it acknowledges?

Changes nothing, and may run beside any number of daemons.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from monitor.bus.postgres.connections.connecting import Connection, connect
from monitor.bus.postgres.connections.connection_failures import bus_errors
from monitor.bus.postgres.connections.migrations import IS_ALIVE, examine, newest_schema
from monitor.bus.postgres.leases.definitions import definition_problems, other_settings
from monitor.bus.postgres_address import PostgresAddress
from monitor.bus.shards import ShardDefinition
from monitor.model.errors import BusUnavailableError
from monitor.model.secrets import Secret

# Without the rights of pg_read_all_stats the states of standbys are hidden, and NULL here.
_SERVER = (
    "SELECT current_setting('server_version') AS version,"
    " current_setting('synchronous_commit') AS synchronous_commit,"
    " current_setting('synchronous_standby_names') AS synchronous_standbys,"
    " current_setting('fsync') = 'on' AS is_durable,"
    " current_setting('default_transaction_read_only') = 'on' AS is_read_only,"
    " (SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()) AS tls,"
    " (SELECT count(*) FROM pg_stat_replication) AS standbys,"
    " (SELECT count(*) FROM pg_stat_replication"
    " WHERE sync_state IN ('sync', 'quorum')) AS waited_for,"
    " inet_server_addr() IS NULL AS is_local"
)
_DAEMONS = (
    f"SELECT id, host, version, lease_seconds FROM daemon WHERE {IS_ALIVE}"  # noqa: S608 - constants
    " ORDER BY id"
)


class LivingDaemonRow(Struct, frozen=True):
    """A daemon that shares the database, and is alive."""

    id: str
    host: str
    version: str
    lease_seconds: float


class DatabaseExamination(Struct, frozen=True, kw_only=True):
    """What was found. ``schema`` 0: no daemon has made its tables yet."""

    server: str  # its version
    schema: int
    newest_schema: int
    tls: str | None  # its version; None: in the clear
    is_local: bool  # through a socket of this machine
    is_durable: bool  # commits reach the disk at all
    is_read_only: bool
    synchronous_commit: str
    synchronous_standbys: str  # empty: no commit waits for a standby
    standbys: int  # that follow the primary now
    waited_for: int  # of these, known to be synchronous
    skew_seconds: float  # of the server's clock, ahead of ours
    daemons: tuple[LivingDaemonRow, ...]
    conflicts: tuple[str, ...]  # of the configuration with what is stored
    set_otherwise: dict[str, list[str]]  # by daemon, the shards that it has other settings for
    others: dict[str, str]  # hosts that are not the primary, and why


async def examine_database(
    address: PostgresAddress,
    password: Secret | None,
    definitions: Sequence[ShardDefinition],
    *,
    daemon_id: str,
    timeout_seconds: float,
) -> DatabaseExamination:
    """Return what the database is like, for a daemon with these shards.

    Raises:
        BusUnavailableError: no host is reachable, or none is the primary.
        BusSchemaError: the server is too old, or what the database holds cannot be used.
        ConfigurationError: it cannot be used with this URL, user or password.
    """
    connection = await connect(address, password, purpose="doctor", timeout_seconds=timeout_seconds)
    try:
        schema = await examine(connection)
        with bus_errors(str(address)):
            found = await connection.fetchrow(_SERVER)
            rows = await connection.fetch(_DAEMONS) if schema else []
            given = connection, daemon_id, definitions
            conflicts = await definition_problems(*given) if schema else []
            set_otherwise = await other_settings(*given) if schema else {}
            skew_seconds = await _skew_seconds(connection)
    finally:
        connection.terminate()
    if found is None:
        raise BusUnavailableError(f"{address}: the server does not answer")
    return DatabaseExamination(
        server=found["version"],
        schema=schema,
        newest_schema=newest_schema(),
        tls=found["tls"],
        is_local=found["is_local"],
        is_durable=found["is_durable"],
        is_read_only=found["is_read_only"],
        synchronous_commit=found["synchronous_commit"],
        synchronous_standbys=found["synchronous_standbys"].strip(),
        standbys=found["standbys"],
        waited_for=found["waited_for"],
        skew_seconds=skew_seconds,
        daemons=tuple(LivingDaemonRow(*row.values()) for row in rows),
        conflicts=tuple(conflicts),
        set_otherwise=set_otherwise,
        others=await _others(address, password, timeout_seconds=timeout_seconds),
    )


async def _skew_seconds(connection: Connection) -> float:
    before = time.time()
    at = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
    return float(at) - (before + time.time()) / 2


async def _others(
    address: PostgresAddress, password: Secret | None, *, timeout_seconds: float
) -> dict[str, str]:
    """Return what each further host is, where several are named; the primary is left out."""
    others: dict[str, str] = {}
    for host in address.hosts if len(address.hosts) > 1 else ():
        try:
            connection = await connect(
                msgspec.structs.replace(address, hosts=(host,)),
                password,
                purpose="doctor",
                timeout_seconds=timeout_seconds,
            )
        except BusUnavailableError as exc:
            others[str(host)] = str(exc).rpartition(f"{host}: ")[2]
        else:
            connection.terminate()
    return others
