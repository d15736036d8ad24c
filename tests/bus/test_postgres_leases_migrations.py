"""The schema: applied once, by the first daemon, and only where it belongs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from monitor.bus.postgres.connections.connecting import Connection, connect
from monitor.bus.postgres.connections.migrations import (
    LOCK,
    Migration,
    examine,
    migrations,
    newest_schema,
    prepare,
)
from monitor.bus.postgres_address import postgres_address
from monitor.model.errors import BusSchemaError, BusUnavailableError, ConfigurationError
from tests.postgres_server import PostgresServer

ADDITIVE = Migration("-- works with: 1\nALTER TABLE shard ADD COLUMN colour text;", works_with=1)
_NEXT = newest_schema() + 1
BREAKING = Migration("ALTER TABLE shard RENAME holder TO owner;", works_with=_NEXT)


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    connection = await connect(postgres_address(url), None, purpose="test", timeout_seconds=20.0)
    try:
        yield connection
    finally:
        connection.terminate()


@pytest.fixture
async def connection(empty_database: str) -> AsyncIterator[Connection]:
    async with connected(empty_database) as connection:
        yield connection


def files(*more: Migration) -> dict[int, Migration]:
    present = migrations()
    return present | dict(enumerate(more, start=max(present) + 1))


async def versions(connection: Connection) -> list[int]:
    rows = await connection.fetch("SELECT version FROM schema_version ORDER BY version")
    return [row["version"] for row in rows]


async def test_daemons_that_start_together_apply_the_schema_once(empty_database: str) -> None:
    """All of them return with the newest schema, in any order."""

    async def start() -> int:
        async with connected(empty_database) as connection:
            return await prepare(connection)

    assert set(await asyncio.gather(*(start() for _ in range(4)))) == {newest_schema()}
    async with connected(empty_database) as connection:
        assert await versions(connection) == list(migrations())
        assert await examine(connection) == newest_schema()


async def test_the_wait_for_a_database_that_is_being_filled_has_a_limit(
    connection: Connection, empty_database: str
) -> None:
    """A daemon that prepares or fills it has a lock; the message names that, not a time-out."""
    async with connected(empty_database) as other:
        await other.execute(f"SELECT pg_advisory_lock({LOCK})")
        with pytest.raises(BusUnavailableError, match="start again when it has ended"):
            await prepare(connection, lock_seconds=0.05)
    assert await prepare(connection) == newest_schema()


async def test_a_schema_that_fails_changes_nothing(connection: Connection) -> None:
    """An upgrade is whole or has not happened."""
    broken = Migration("-- works with: 1\nCREATE TABLE half (); SELECT broken;", works_with=1)
    with pytest.raises(Exception, match="broken"):
        await prepare(connection, files(broken))

    assert await connection.fetchval("SELECT to_regclass('half')") is None
    assert await prepare(connection) == newest_schema()


async def test_an_older_program_goes_on_with_a_schema_that_says_so(
    connection: Connection,
) -> None:
    """A neighbour of the next version has upgraded: this one starts, and leaves the schema."""
    newest = await prepare(connection, files(ADDITIVE))

    assert newest == newest_schema() + 1
    assert await prepare(connection) == newest
    assert await examine(connection) == newest


async def test_a_schema_that_this_program_does_not_know_is_refused(
    connection: Connection,
) -> None:
    """The message names both schemas, and that the newer version is to be installed."""
    await prepare(connection, files(BREAKING))
    with pytest.raises(BusSchemaError, match=f"up to {newest_schema()}; install the newer"):
        await prepare(connection)
    with pytest.raises(BusSchemaError, match="newer version"):
        await examine(connection)


async def test_a_schema_that_would_stop_running_daemons_is_not_applied(
    connection: Connection,
) -> None:
    """Daemons of the former schema are named; once they are gone it is applied."""
    await prepare(connection)
    await connection.execute(
        "INSERT INTO daemon (id, incarnation, host, process, process_id, version, schema,"
        " lease_seconds, started_at, renewed_at, expires_at) VALUES ('old', gen_random_uuid(),"
        " 'host', '', 1, '1.0', $1, 9, now(), now(), now() + interval '1 hour')",
        newest_schema(),
    )
    with pytest.raises(BusSchemaError, match=r"old \(version 1\.0\); end them first"):
        await prepare(connection, files(BREAKING))
    assert await versions(connection) == list(migrations())

    assert await prepare(connection, files(ADDITIVE)) == newest_schema() + 1
    await connection.execute("UPDATE daemon SET expires_at = now() - interval '1 second'")
    assert await prepare(connection, files(ADDITIVE, BREAKING)) == newest_schema() + 2


async def test_a_daemon_that_died_before_the_clock_was_set_back_stops_no_schema(
    connection: Connection,
) -> None:
    """Its lease ends in 40 days by the clock of now, and no daemon is left to declare it gone."""
    await prepare(connection)
    await connection.execute(
        "INSERT INTO daemon (id, incarnation, host, process, process_id, version, schema,"
        " lease_seconds, started_at, renewed_at, expires_at) VALUES ('old', gen_random_uuid(),"
        " 'host', '', 1, '1.0', $1, 9, now(), now() + interval '40 days',"
        " now() + interval '40 days 9 seconds')",
        newest_schema(),
    )
    assert await examine(connection) == newest_schema()
    assert await prepare(connection, files(ADDITIVE, BREAKING)) == newest_schema() + 2


async def test_a_database_of_another_application_is_refused(connection: Connection) -> None:
    """Its tables are named, and nothing is made beside them."""
    await connection.execute("CREATE TABLE invoice (); CREATE VIEW store AS SELECT 1 AS number")
    with pytest.raises(BusSchemaError, match=r"another application \(invoice, store\)"):
        await prepare(connection)
    with pytest.raises(BusSchemaError, match="another application"):
        await examine(connection)

    assert (
        await connection.fetchval("SELECT count(*) FROM pg_tables WHERE tablename = 'shard'") == 0
    )


async def test_tables_of_the_same_names_are_no_store(connection: Connection) -> None:
    """A shop has a table `store` as well; what tells ours is what stands in it."""
    await connection.execute("CREATE TABLE store (name text); CREATE TABLE schema_version (x int)")
    with pytest.raises(BusSchemaError, match="another application"):
        await prepare(connection)


async def test_a_user_without_rights_learns_which_to_grant(
    postgres: PostgresServer, empty_database: str
) -> None:
    """May not create tables; then may not write them; then works, and never had to own them."""
    database = empty_database.rpartition("/")[2]
    role = await postgres.create_role("app_without_rights")
    url = postgres.url(database, user=role)
    try:
        async with connected(url) as connection:
            with pytest.raises(ConfigurationError, match="GRANT CREATE, USAGE ON SCHEMA public"):
                await prepare(connection)
            async with connected(empty_database) as administrator:
                await prepare(administrator)
            with pytest.raises(ConfigurationError, match="permission denied"):
                await prepare(connection)
            await postgres.execute(
                f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}", database=database
            )
            with pytest.raises(ConfigurationError, match="may not DELETE in table"):
                await prepare(connection)
            with pytest.raises(ConfigurationError, match=f"schema {_NEXT} cannot be applied"):
                await prepare(connection, files(ADDITIVE))
            await postgres.execute(
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
                database=database,
            )
            assert await prepare(connection) == newest_schema()
    finally:
        await postgres.execute(f"DROP OWNED BY {role}", database=database)
        await postgres.execute(f"DROP ROLE {role}")


async def test_a_table_of_an_extension_is_no_foreign_table(connection: Connection) -> None:
    """Views of statistics in the schema do not make a database another application's."""
    available = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'"
    if not await connection.fetchval(available):
        pytest.skip("no extension with a view is installed")
    await connection.execute("CREATE EXTENSION pg_stat_statements")

    assert await prepare(connection) == newest_schema()


async def test_a_search_path_of_its_own_keeps_stores_apart(connection: Connection) -> None:
    """Two schemas of one database are two stores; a path that names none is refused."""
    await connection.execute("CREATE SCHEMA other; SET search_path = other")
    await prepare(connection)
    assert await connection.fetchval("SELECT to_regclass('public.shard')") is None
    await connection.execute("SET search_path = absent")
    with pytest.raises(ConfigurationError, match="no schema of the search path exists"):
        await prepare(connection)


def test_every_file_says_which_programs_work_with_it() -> None:
    """No version works with a schema that is newer than itself, and none is missing."""
    numbers = list(migrations())
    assert numbers == list(range(1, len(numbers) + 1))
    assert all(1 <= migration.works_with <= number for number, migration in migrations().items())
