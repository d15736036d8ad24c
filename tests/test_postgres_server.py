"""The PostgreSQL of the tests does what tests of failures rely on."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.postgres_server import PostgresServer


async def test_each_test_has_a_database_of_its_own(
    postgres: PostgresServer, empty_database: str
) -> None:
    """A table of one database is in no other; words do not sort as bytes do."""
    name = urlsplit(empty_database).path[1:]
    await postgres.execute("CREATE TABLE seen (word text)", database=name)
    await postgres.execute("INSERT INTO seen VALUES ('b'), ('A'), ('a'), ('B')", database=name)
    other = await postgres.create_database()
    words = await postgres.fetch("SELECT word FROM seen ORDER BY word", database=name)
    assert [row["word"] for row in words] == ["a", "A", "b", "B"]
    assert await postgres.value("SELECT to_regclass('seen')", database=other) is None
    await postgres.drop_database(other)


async def test_committed_transactions_outlive_a_kill() -> None:
    """Killed with a transaction under way: that one is gone, every committed one is there."""
    async with PostgresServer() as server:
        await server.execute("CREATE TABLE seen (number int)")
        connection = await asyncpg.connect(server.url())
        await connection.execute("INSERT INTO seen VALUES (1)")
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("INSERT INTO seen VALUES (2)")
        await server.kill()
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            await transaction.commit()
        await server.start()
        assert await server.value("SELECT array_agg(number) FROM seen") == [1]


async def test_a_frozen_server_answers_when_it_is_thawed() -> None:
    """A connection to a frozen server stays open, and its statement is answered later."""
    async with PostgresServer() as server:
        connection = await asyncpg.connect(server.url())
        server.freeze()
        answer = asyncio.create_task(connection.fetchval("SELECT 1"))
        done, _ = await asyncio.wait([answer], timeout=0.2)
        assert not done
        server.thaw()
        assert await answer == 1
        await connection.close()


async def test_a_promoted_standby_has_all_that_was_acknowledged() -> None:
    """Writes that a primary with a synchronous standby has acknowledged outlive its kill."""
    async with PostgresServer() as primary:
        await primary.execute("CREATE TABLE seen (number int)")
        async with await primary.create_standby("second") as standby:
            await primary.commit_synchronously("second")
            await primary.execute("INSERT INTO seen VALUES (1)")
            await primary.kill()
            await standby.promote()
            await standby.execute("INSERT INTO seen VALUES (2)")
            assert await standby.value("SELECT count(*) FROM seen") == 2


async def test_access_can_need_a_password() -> None:
    """With lines of ``pg_hba.conf`` a role without its password is refused."""
    access = ("local all all trust", "host all all 127.0.0.1/32 scram-sha-256")
    async with PostgresServer(access=access) as server:
        role = await server.create_role("daemon", password="made-up")
        connection = await asyncpg.connect(server.url(user=role), password="made-up")
        await connection.close()
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(server.url(user=role), password="another")
