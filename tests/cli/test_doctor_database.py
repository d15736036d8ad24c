"""``doctor`` and ``check`` of a store that is a database: usable, safe, and who shares it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from monitor.bus.postgres.connections.connecting import connect
from monitor.bus.postgres.connections.migrations import prepare
from monitor.bus.postgres_address import postgres_address
from monitor.bus.settings import StorageSettings
from monitor.cli.configuration_report import report, summary
from monitor.cli.database_check import check_database
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.checks import CheckLine
from monitor.model.secrets import Secret
from tests.app import fixture
from tests.bus.examples import SOON
from tests.postgres_server import PostgresServer
from tests.servers import free_port

HERE = socket.gethostname()


async def lines(
    settings: StorageSettings, *workspaces: WorkspaceConfiguration
) -> dict[str, CheckLine]:
    assert settings.postgres is not None
    configuration = Configuration(workspaces=workspaces, storage=settings)
    found = await check_database(configuration, settings.postgres)
    assert len({line.subject for line in found}) == len(found)
    return {line.subject: line for line in found}


async def store(url: str, **more: object) -> CheckLine:
    return (await lines(StorageSettings(url=url, **more)))["store"]  # type: ignore[arg-type]  # few


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


@pytest.fixture
async def prepared(empty_database: str) -> str:
    """Return the URL of a database that a daemon has used."""
    connection = await connect(
        postgres_address(empty_database), None, purpose="test", timeout_seconds=SOON
    )
    await prepare(connection)
    connection.terminate()
    return empty_database


async def test_an_empty_database_can_be_used(empty_database: str) -> None:
    """Version, what is in it and how it is reached; nothing is made there."""
    found = await lines(StorageSettings(url=empty_database))
    assert {
        line.outcome.value for subject, line in found.items() if subject != "store commits"
    } == {"ok"}
    assert "empty, and the user may make the tables, no TLS" in found["store"].found
    assert found["store daemons"].found == "none is alive"
    # Servers of tests do not wait for the disk.
    assert "fsync = off" in found["store commits"].found
    assert "empty" in (await store(empty_database)).found


async def test_a_database_that_cannot_be_used_fails_with_a_hint(
    postgres: PostgresServer, empty_database: str
) -> None:
    """Another application's tables, a user without rights, a newer schema, and no server."""
    name = name_of(empty_database)
    await postgres.execute("CREATE TABLE orders (id int)", database=name)
    line = await store(empty_database)
    assert (line.outcome, "tables of another application (orders)" in line.found) == (
        "failed",
        True,
    )
    await postgres.execute("DROP TABLE orders", database=name)
    role = await postgres.create_role(f"poor_{name}")
    line = await store(postgres.url(name, user=role))
    assert (line.outcome, "may not create tables" in line.found) == ("failed", True)
    assert str(line.hint).startswith("GRANT CREATE, USAGE ON SCHEMA public")
    line = await store(f"postgresql://postgres@127.0.0.1:{free_port()}/{name}")
    assert (line.outcome, "no connection to the primary" in line.found) == ("failed", True)
    line = await store(postgres.url(f"{name}_absent"))
    assert (line.outcome, "does not exist" in line.found) == ("failed", True)


async def test_a_newer_schema_fails(postgres: PostgresServer, prepared: str) -> None:
    """A store that a newer version has changed is not for this one."""
    statement = "INSERT INTO schema_version (version, works_with) VALUES (900, 900)"
    await postgres.execute(statement, database=name_of(prepared))
    line = await store(prepared)
    assert (line.outcome, "by a newer version" in line.found) == ("failed", True)
    assert line.hint == "install the newer version"


async def test_a_secret_of_the_database_is_in_no_line(empty_database: str) -> None:
    """A message about a database names neither password nor user."""
    settings = StorageSettings(url=empty_database, password=Secret("do-not-show"))
    shown = " ".join(map(str, (await lines(settings)).values()))
    assert "do-not-show" not in shown


async def heartbeat(server: PostgresServer, database: str, id_: str, host: str) -> None:
    await server.execute(
        "INSERT INTO daemon (id, incarnation, host, process, process_id, version, schema,"
        " started_at, renewed_at, expires_at, lease_seconds) VALUES ($1, gen_random_uuid(), $2,"
        " '', 1, '1.0', 1, now(), now(), now() + interval '1 minute', 9)",
        id_,
        host,
        database=database,
    )


def test_a_configuration_of_it_is_summed_up_without_its_user(empty_database: str) -> None:
    """As in every message about the URL."""
    settings = StorageSettings(url=empty_database)
    *_, last = summary(Configuration(workspaces=(), storage=settings))
    assert last == f"store {empty_database.replace('//postgres@', '//***@')}"


async def test_daemons_that_share_it_are_listed(postgres: PostgresServer, prepared: str) -> None:
    """A name that is taken on another host fails; another lease is a warning."""
    name = name_of(prepared)
    await heartbeat(postgres, name, "monitor-1", "far")
    await heartbeat(postgres, name, "monitor-2", HERE)
    own = await lines(StorageSettings(url=prepared, daemon="monitor-2"))
    alive = f"alive: monitor-1 on far (1.0), monitor-2 on {HERE} (1.0)"
    assert (own["store daemons"].outcome, own["store daemons"].found) == ("ok", alive)
    taken = await lines(StorageSettings(url=prepared, daemon="monitor-1"))
    assert (taken["store daemons"].outcome, taken["store daemons"].hint) == (
        "failed",
        "give this one a name of its own in storage.daemon",
    )
    other = await lines(StorageSettings(url=prepared, daemon="x", lease_seconds=20))
    assert other["store daemons"].outcome == "warning"


@pytest.fixture
async def durable() -> AsyncIterator[PostgresServer]:
    """Return a server that waits for the disk."""
    async with PostgresServer(is_durable=True) as server:
        yield server


async def test_another_configuration_of_a_workspace_fails(
    postgres: PostgresServer, prepared: str
) -> None:
    """Of another URL, as of two clusters in one database, or of another shard; as at a start.

    Other settings of it are a warning: the daemons do not take it over from each other.
    """
    name = name_of(prepared)
    await heartbeat(postgres, name, "north", "there")
    for statement in (
        "INSERT INTO shard (name) VALUES ('acme'), ('small')",
        "INSERT INTO workspace SELECT name, number, 'https://other' FROM shard WHERE name = 'acme'",
        """UPDATE daemon SET digests = '{"acme": "2c26"}'""",
    ):
        await postgres.execute(statement, database=name)
    settings, acme = StorageSettings(url=prepared, daemon="south"), fixture.unreachable("acme")
    line = (await lines(settings, acme))["store workspaces"]
    assert line.outcome == "failed"
    assert line.found == (
        "workspaces.acme.url: is http://127.0.0.1:9, and daemon north on there follows "
        "https://other under this name"
    )
    assert str(line.hint).startswith("give both the same URL")
    statement = "UPDATE workspace SET url = 'http://127.0.0.1:9'"
    await postgres.execute(statement, database=name)
    line = (await lines(settings, acme))["store workspaces"]
    assert (line.outcome, line.found) == ("warning", "other settings have north of shard acme")
    workspace = msgspec.structs.replace(acme.workspace, shard="small")
    moved = msgspec.structs.replace(acme, workspace=workspace)
    line = (await lines(settings, moved))["store workspaces"]
    assert (line.outcome, "stored in shard 'acme'" in line.found) == ("failed", True)
    assert "store workspaces" not in await lines(settings, fixture.unreachable("new"))


async def test_commits_that_could_be_lost_are_warned_of(durable: PostgresServer) -> None:
    """Asynchronous commits and standbys may lose what a callback was answered with."""
    url = durable.url()
    alone = (await lines(StorageSettings(url=url)))["store commits"]
    assert (alone.outcome, alone.found) == (
        "ok",
        "on the disk of the primary, which has no standby",
    )
    await durable.execute("ALTER ROLE postgres SET synchronous_commit = off")
    off = (await lines(StorageSettings(url=url)))["store commits"]
    assert (off.outcome, off.hint) == (
        "warning",
        "ALTER ROLE postgres SET synchronous_commit = on",
    )
    await durable.execute("ALTER ROLE postgres RESET synchronous_commit")
    standby = await durable.create_standby("second")
    async with standby:
        both = f"postgresql://postgres@127.0.0.1:{standby.port},127.0.0.1:{durable.port}/postgres"
        found = await lines(StorageSettings(url=both))
        assert found["store hosts"].found == (
            f"127.0.0.1:{durable.port} is the primary; 127.0.0.1:{standby.port}: a standby"
        )
        assert "all standbys are asynchronous" in found["store commits"].found
        await durable.commit_synchronously("second")
        found = await lines(StorageSettings(url=both))
        assert (found["store commits"].outcome, found["store hosts"].outcome) == ("ok", "ok")
    found = await lines(StorageSettings(url=both))
    assert found["store hosts"].outcome == "warning"


def test_check_reports_the_database_by_its_key(
    tmp_path: Path, postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A database that is not there is a problem; one that does not answer is a warning."""
    (tmp_path / "token").write_text("a token")
    config = tmp_path / "monitor.toml"
    least = '[[workspaces]]\nname = "acme"\nurl = "https://api.example.com"\ntoken_file = "token"\n'
    least += "[alerting]\nwarn_without_output = false\n"
    config.write_text(f'{least}[storage]\nurl = "{postgres.url("absent")}"\n')
    assert not report(config, as_json=False)
    error = capsys.readouterr().err
    assert error.startswith('storage.url: "postgresql://***@127.0.0.1:')
    assert error.endswith('database "absent" does not exist; create it, or name another one\n')
    away = f"postgresql://me@127.0.0.1:{free_port()}/monitor"
    config.write_text(f'{least}[storage]\nurl = "{away}"\n')
    assert report(config, as_json=False)
    assert capsys.readouterr().err.startswith('warning: storage.url: "postgresql://***@')
