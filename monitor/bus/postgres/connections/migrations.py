"""Brings a database to the newest schema: numbered SQL files, under one lock, in one transaction.

Daemons of neighbouring versions work side by side during a rolling upgrade. So each file says in
its first line which schema a program must know at least to work with it: ``-- works with: 1``. An
older daemon goes on with a newer schema as far as that line allows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

import asyncpg
import structlog

from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.connection_failures import bus_errors, reason_of
from monitor.model.errors import BusSchemaError, BusUnavailableError, ConfigurationError

log = structlog.get_logger()

APPLICATION = "dataprep-monitor"
_FILE_NAME = re.compile(r"(\d{4})_\w+\.sql")
_HEADER = re.compile(r"-- works with: (\d+)\n")
LOCK = 6_711_446  # of this database; any number that no other application uses
_LOCK_SECONDS = 60.0
_OTHERS_SHOWN = 5

_PLACE = (
    "SELECT current_user AS role, current_database() AS database, current_schema() AS schema,"
    " has_schema_privilege(current_schema(), 'CREATE') AS may_create,"
    " (SELECT count(*) = 2 FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
    " WHERE relnamespace = to_regnamespace(quote_ident(current_schema())) AND (relname, attname)"
    " IN (('store', 'application'), ('schema_version', 'works_with'))) AS is_store"
)
# What an extension has made (a view of statistics, say) is not counted as a table of others.
_TABLES = (
    "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
    " AND relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT EXISTS (SELECT FROM pg_depend"
    " WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e')"
    " ORDER BY relname"
)
_FORBIDDEN = (
    "SELECT relname, privilege FROM pg_class,"
    " unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege"
    " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"
    " AND relowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('store'))"
    " AND NOT has_table_privilege(pg_class.oid, privilege) ORDER BY relname, privilege LIMIT 1"
)
# By the server's clock. If that was set back, a renewal of the future says nothing: a daemon that
# is alive renews within a quarter of its lease.
IS_ALIVE = (
    "NOT is_gone AND clock_timestamp()"
    " BETWEEN renewed_at - make_interval(secs => lease_seconds) AND expires_at"
)
_OLD_DAEMONS = (
    f"SELECT id, version FROM daemon WHERE {IS_ALIVE} AND schema < $1"  # noqa: S608 - a constant
    " ORDER BY id"
)


class Migration(NamedTuple):
    """One file: its SQL, and the oldest schema whose programs go on working after it."""

    sql: str
    works_with: int


def migrations(folder: Traversable | None = None) -> dict[int, Migration]:
    """Return the files of the schema by version, in order."""
    folder = folder or resources.files("monitor.bus.postgres") / "schema"
    found: dict[int, Migration] = {}
    for entry in folder.iterdir():
        if (match := _FILE_NAME.fullmatch(entry.name)) is not None:
            sql = entry.read_text("utf-8")
            header = _HEADER.match(sql)
            if header is None:
                raise ValueError(f"{entry.name} does not begin with -- works with: VERSION")
            found[int(match[1])] = Migration(sql, int(header[1]))
    return dict(sorted(found.items()))


def newest_schema() -> int:
    """Return the schema that this program brings a store to."""
    return max(migrations())


async def prepare(
    connection: Connection,
    files: Mapping[int, Migration] | None = None,
    *,
    lock_seconds: float = _LOCK_SECONDS,
) -> int:
    """Bring the database to the newest schema, or a newer one as it is; return which it has.

    Raises:
        BusSchemaError: a newer monitor wrote it, another application has its tables there, or
            daemons run that the newest schema would stop.
        ConfigurationError: the user lacks rights.
        BusUnavailableError: the server did not do it.
    """
    files = files or migrations()
    with bus_errors("the schema of the store cannot be read"):
        async with connection.transaction():
            await _lock(connection, lock_seconds)
            present = await _present_schema(connection, newest=max(files))
            missing = {number: files[number] for number in files if number > present}
            if missing:
                await _apply(connection, present, missing)
            else:
                await _refuse_missing_rights(connection)
            return max(present, *files)


async def examine(connection: Connection, files: Mapping[int, Migration] | None = None) -> int:
    """Return the schema that the database has, 0 where it is empty; change nothing.

    Raises:
        BusSchemaError, ConfigurationError: as `prepare`.
    """
    with bus_errors("the schema of the store cannot be read"):
        present = await _present_schema(connection, newest=max(files or migrations()))
        await _refuse_missing_rights(connection)
    return present


async def _lock(connection: Connection, seconds: float) -> None:
    """Let other daemons that start at the same time find the schema finished."""
    await connection.execute(f"SET LOCAL statement_timeout = '{seconds * 1000:.0f}ms'")
    try:
        await connection.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
    except asyncpg.QueryCanceledError as exc:
        raise BusUnavailableError(
            f"another process has prepared or filled the database for more than {seconds:g} s; "
            "start again when it has ended"
        ) from exc


async def _present_schema(connection: Connection, *, newest: int) -> int:
    place = await connection.fetchrow(_PLACE)
    if place is None or place["schema"] is None:
        raise ConfigurationError(
            "storage.url: no schema of the search path exists in the database, or the user may use "
            "none; create one, or ALTER ROLE ... SET search_path"
        )
    name = f"schema {place['schema']} of database {place['database']}"
    if not place["is_store"]:
        await _refuse_strangers(connection, name)
        if not place["may_create"]:
            raise ConfigurationError(
                f"storage.url: the user {place['role']} may not create tables in {name}; GRANT "
                f"CREATE, USAGE ON SCHEMA {place['schema']} TO it, or make it the database's owner"
            )
        return 0
    return await _version(connection, name, newest=newest)


async def _refuse_strangers(connection: Connection, name: str) -> None:
    tables = [row["relname"] for row in await connection.fetch(_TABLES)]
    if tables:
        shown = ", ".join(tables[:_OTHERS_SHOWN])
        more = f" and {len(tables) - _OTHERS_SHOWN} more" if len(tables) > _OTHERS_SHOWN else ""
        raise BusSchemaError(
            f"storage.url: {name} has tables of another application ({shown}{more}); use a "
            "database, or a schema, of the monitor's own"
        )


async def _version(connection: Connection, name: str, *, newest: int) -> int:
    try:
        application = await connection.fetchval("SELECT application FROM store")
        rows = await connection.fetch("SELECT version, works_with FROM schema_version")
    except asyncpg.InsufficientPrivilegeError as exc:
        raise ConfigurationError(f"storage.url: {name}: {reason_of(exc)}") from exc
    if application != APPLICATION:
        await _refuse_strangers(connection, name)
    present = max((row["version"] for row in rows), default=0)
    needed = max((row["works_with"] for row in rows), default=0)
    if needed > newest:
        raise BusSchemaError(
            f"storage.url: {name} was written by a newer version of the monitor: its schema is "
            f"{present} and needs programs that know {needed}, this one knows up to {newest}; "
            "install the newer version"
        )
    return int(present)


async def _apply(connection: Connection, present: int, missing: Mapping[int, Migration]) -> None:
    needed = max(migration.works_with for migration in missing.values())
    if present:
        await _refuse_old_daemons(connection, needed)
    for number, migration in missing.items():
        try:
            await connection.execute(migration.sql)
        except asyncpg.InsufficientPrivilegeError as exc:
            raise ConfigurationError(
                f"storage.url: schema {number} cannot be applied: {reason_of(exc)}; start once as "
                "the user that owns the tables"
            ) from exc
        await connection.execute(
            "INSERT INTO schema_version (version, works_with) VALUES ($1, $2)",
            number,
            migration.works_with,
        )
        log.info("store schema applied", version=number)
    if not present:
        await connection.execute("INSERT INTO store (application) VALUES ($1)", APPLICATION)


async def _refuse_old_daemons(connection: Connection, needed: int) -> None:
    rows = await connection.fetch(_OLD_DAEMONS, needed)
    if rows:
        names = ", ".join(f"{row['id']} (version {row['version']})" for row in rows)
        raise BusSchemaError(
            f"storage.url: the newest schema stops daemons that run: {names}; end them first"
        )


async def _refuse_missing_rights(connection: Connection) -> None:
    row = await connection.fetchrow(_FORBIDDEN)
    if row is not None:
        raise ConfigurationError(
            f"storage.url: the user may not {row['privilege']} in table {row['relname']}; GRANT "
            "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ... TO it, or connect as the "
            "owner of the tables"
        )
