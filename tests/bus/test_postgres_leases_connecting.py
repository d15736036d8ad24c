"""Connections to the primary: which host, how far TLS goes, and what is refused in one sentence."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.bus.postgres.connections.connecting import Connection, connect
from monitor.bus.postgres.connections.connection_failures import bus_errors
from monitor.bus.postgres.connections.connector import PostgresConnector
from monitor.bus.postgres_address import postgres_address
from monitor.model.errors import (
    BusSchemaError,
    BusUnavailableError,
    ConfigurationError,
    MonitorError,
)
from monitor.model.secrets import Secret
from tests.certificates import Certificates
from tests.postgres_server import PostgresServer
from tests.servers import Relay, free_port

PASSWORD = "hunter2-of-the-database"


@contextlib.asynccontextmanager
async def connected(
    url: str, password: str | None = None, *, timeout_seconds: float = 20.0
) -> AsyncIterator[Connection]:
    connection = await connect(
        postgres_address(url),
        None if password is None else Secret(password),
        purpose="test",
        timeout_seconds=timeout_seconds,
    )
    try:
        yield connection
    finally:
        connection.terminate()


async def refusal(url: str, password: str | None = None) -> MonitorError:
    """Return why there is no connection; no message repeats the password."""
    with pytest.raises(MonitorError) as refused:
        async with connected(url, password, timeout_seconds=5.0):
            pass
    assert PASSWORD not in str(refused.value)
    assert "\n" not in str(refused.value)
    return refused.value


def hosts(*ports: int, database: str = "postgres") -> str:
    return f"postgresql://postgres@{','.join(f'127.0.0.1:{port}' for port in ports)}/{database}"


async def test_every_wait_of_a_session_is_shorter_than_a_lease(postgres: PostgresServer) -> None:
    """A backend whose daemon is stopped or cut off ends before others may take its shards over."""
    async with connected(postgres.url()) as connection:
        names = ("statement_timeout", "idle_in_transaction_session_timeout")
        waits = [await connection.fetchval("SHOW " + name) for name in names]
        assert waits == ["6s", "3s"]
        # Of TCP the server shows what the system took; the connection is one over TCP.
        assert await connection.fetchval("SHOW tcp_keepalives_idle") == "3"
        assert await connection.fetchval("SHOW tcp_user_timeout") == "6000"
        assert await connection.fetchval("SHOW application_name") == "dataprep-monitor test"


async def test_the_primary_is_found_among_hosts_that_are_down_hang_or_are_standbys(
    postgres: PostgresServer,
) -> None:
    """Neither a dead port, nor a host that never answers, nor a standby keeps it from the next."""
    standby = await postgres.create_standby("standby")
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        async with standby:
            url = hosts(free_port(), hanging.getsockname()[1], standby.port, postgres.port)
            async with asyncio.timeout(15), connected(url) as connection:
                assert await connection.fetchval("SELECT inet_server_port()") == postgres.port
            only_standby = await refusal(hosts(standby.port))
    assert isinstance(only_standby, BusUnavailableError)
    assert str(only_standby) == (
        f"no connection to the primary of 127.0.0.1:{standby.port}/postgres: "
        f"127.0.0.1:{standby.port}: a standby"
    )


async def test_without_any_primary_each_host_says_why() -> None:
    """Every host is named once, with its reason."""
    ports = free_port(), free_port()
    error = await refusal(hosts(*ports))

    assert isinstance(error, BusUnavailableError)
    assert all(f"127.0.0.1:{port}: Connection refused" in str(error) for port in ports)


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[tuple[PostgresServer, Certificates]]:
    """A server that takes connections with TLS and password only."""
    certificates = Certificates(tmp_path)
    server = PostgresServer(
        options={"ssl": "on", "ssl_cert_file": "server.pem", "ssl_key_file": "server.key"},
        access=["local all all trust", "hostssl all all 127.0.0.1/32 scram-sha-256"],
    )
    server.install(certificates.server)
    server.install(certificates.key_of(certificates.server))
    async with server:
        await server.create_role("monitor", password=PASSWORD)
        yield server, certificates


async def test_tls_and_password(
    guarded: tuple[PostgresServer, Certificates], tmp_path: Path
) -> None:
    """`prefer` and `require` encrypt; `verify-full` needs the authority; `disable` is refused."""
    server, certificates = guarded
    url = server.url(user="monitor")
    secure = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    verified = f"{url}?sslmode=verify-full&sslrootcert={certificates.authority}"
    for encrypted in (url, f"{url}?sslmode=require", verified):
        async with connected(encrypted, PASSWORD) as connection:
            assert await connection.fetchval(secure) is True

    passfile = tmp_path / "passfile"
    passfile.write_text(f"127.0.0.1:{server.port}:*:monitor:{PASSWORD}\n")
    passfile.chmod(0o600)
    async with connected(f"{verified}&passfile={passfile}") as connection:
        assert await connection.fetchval("SELECT current_user") == "monitor"

    unknown = await refusal(f"{url}?sslmode=verify-full", PASSWORD)
    assert isinstance(unknown, ConfigurationError)
    assert "sslrootcert must name" in str(unknown)
    plain = await refusal(f"{url}?sslmode=disable", PASSWORD)
    assert isinstance(plain, ConfigurationError)
    assert "no encryption" in str(plain)
    other = await refusal(verified, "another")
    assert isinstance(other, ConfigurationError)
    assert "storage.password_file" in str(other)


async def test_a_refused_password_is_read_again(
    guarded: tuple[PostgresServer, Certificates],
) -> None:
    """After a change in the database the new one is taken from its place, without a restart."""
    server, _ = guarded
    stands_there: list[str] = [PASSWORD]

    def read_again() -> Secret:
        if not stands_there:
            raise ConfigurationError("there is no such file")
        return Secret(stands_there[0], read_again=read_again)

    connector = PostgresConnector(
        address=postgres_address(server.url(user="monitor")),
        password=read_again(),
        lease_seconds=9.0,
    )
    (await connector.connect(purpose="first")).terminate()
    await server.execute("ALTER ROLE monitor PASSWORD 'another-password'")
    with pytest.raises(BusUnavailableError, match="password authentication failed"):
        await connector.connect(purpose="too early")
    stands_there.clear()
    with pytest.raises(BusUnavailableError, match="cannot be read again: there is no such file"):
        await connector.connect(purpose="without a file")
    stands_there.append("another-password")
    (await connector.connect(purpose="second")).terminate()


@pytest.mark.parametrize("mode", ["require", "verify-full"])
async def test_a_server_without_tls_is_named_as_such(postgres: PostgresServer, mode: str) -> None:
    """It is an error of the configuration, whose hint is neither a firewall nor a restart."""
    error = await refusal(f"{postgres.url()}?sslmode={mode}")
    assert isinstance(error, ConfigurationError)
    assert str(error) == (
        f"storage.url: 127.0.0.1:{postgres.port}/postgres has no TLS, and sslmode={mode} asks for "
        "it; set ssl = on at the server, or sslmode=prefer in the URL"
    )


async def test_tls_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """A wrong path is an error of the configuration, and the message names the path."""
    missing = tmp_path / "missing.pem"
    error = await refusal(f"{hosts(1)}?sslmode=verify-full&sslrootcert={missing}")

    assert isinstance(error, ConfigurationError)
    assert str(missing) in str(error)


async def test_a_passfile_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """As libpq does, but with a word about it; so is one that is not there."""
    passfile = tmp_path / "passfile"
    missing = await refusal(f"{hosts(1)}?passfile={passfile}")
    passfile.touch(mode=0o644)
    readable = await refusal(f"{hosts(1)}?passfile={passfile}")

    assert (type(missing), type(readable)) == (ConfigurationError, ConfigurationError)
    assert f"passfile {passfile}: No such file" in str(missing)
    assert "chmod 600" in str(readable)


async def test_a_database_that_does_not_exist_is_an_error_of_the_configuration(
    postgres: PostgresServer,
) -> None:
    """It would not appear by waiting, so the message says what to do."""
    error = await refusal(hosts(postgres.port, database="absent"))

    assert isinstance(error, ConfigurationError)
    assert f"127.0.0.1:{postgres.port}/absent" in str(error)
    assert "create it" in str(error)


async def test_a_database_that_cannot_hold_every_text_is_refused(postgres: PostgresServer) -> None:
    """Names of pipelines are Unicode, so another encoding is refused before the first write."""
    await postgres.execute(
        "CREATE DATABASE latin ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'"
        " LOCALE_PROVIDER libc"
    )
    error = await refusal(hosts(postgres.port, database="latin"))
    await postgres.drop_database("latin")

    assert isinstance(error, BusSchemaError)
    assert "SQL_ASCII" in str(error)


class Pooler(Relay):
    """Answers like PgBouncer in transaction mode: each client gets a process id of its own."""

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        keys = re.compile(rb"K\x00\x00\x00\x0c....", re.DOTALL)
        key = b"K\x00\x00\x00\x0c\x00\x00\x00\x07" if is_answer else b""
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65_536):
                writer.write(keys.sub(key, chunk))
                await writer.drain()
        writer.transport.abort()


class StrictPooler(Relay):
    """Refuses settings that it does not know, as PgBouncer does where they are not listed."""

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        message = b"SFATAL\0C08P01\0Munsupported startup parameter: statement_timeout\0\0"
        writer.write(b"E" + (len(message) + 4).to_bytes(4, "big") + message)
        writer.close()


@pytest.mark.parametrize("pooler", [Pooler, StrictPooler])
async def test_a_pooler_is_refused(postgres: PostgresServer, pooler: type[Relay]) -> None:
    """A lease needs a session of its own; whichever way the pooler shows, one message says so."""
    async with pooler(postgres.port) as front:
        error = await refusal(f"{hosts(front.port)}?sslmode=disable")

    assert isinstance(error, ConfigurationError)
    assert "is a pooler" in str(error)


async def test_an_error_of_the_server_is_one_of_ours_and_repeats_no_value(
    postgres: PostgresServer,
) -> None:
    """The text that asyncpg adds from a row stays out of the message."""
    async with connected(postgres.url()) as connection:
        await connection.execute("CREATE TEMPORARY TABLE secret (key text PRIMARY KEY)")
        await connection.execute("INSERT INTO secret VALUES ($1)", PASSWORD)
        with pytest.raises(BusUnavailableError, match="duplicate key") as refused, bus_errors():
            await connection.execute("INSERT INTO secret VALUES ($1)", PASSWORD)
    assert PASSWORD not in str(refused.value)


async def test_after_its_first_connection_a_daemon_waits_for_the_server(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal in a fail-over may pass: everything is unavailable, and asyncpg logs nothing."""
    async with Relay(postgres.port) as front:
        connector = PostgresConnector(
            address=postgres_address(hosts(front.port)), password=None, lease_seconds=9.0
        )
        connection = await connector.connect(purpose="test")
        front.cut()
        with pytest.raises(BusUnavailableError), bus_errors():
            await connection.fetchval("SELECT 1")
        connection.terminate()
    connector.address = postgres_address(hosts(postgres.port, database="absent"))
    with pytest.raises(BusUnavailableError, match="absent"):
        await connector.connect(purpose="test")

    assert [record for record in caplog.records if record.name.startswith("asyncpg")] == []
