"""A daemon that cannot start says why as ``doctor`` and ``check`` do: one line for each problem."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import pytest

from monitor.web.settings import ServerSettings
from tests.app import fixture
from tests.app.processes import Settings, Watched, command
from tests.postgres_server import PostgresServer
from tests.servers import free_port

TOKEN = "the-token-itself"
# The folder of a store with which `doctor` examines: of no interest to who started a daemon.
EXAMINED = "dataprep-monitor-doctor"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    # No server answers there, and none is needed.
    watched = Watched("acme", f"http://127.0.0.1:{free_port()}", TOKEN)
    return Settings(tmp_path, watched, with_callbacks=True)


async def said(settings: Settings, *, code: int) -> list[str]:
    """Run the daemon, which cannot start, and return its lines that are no log lines."""
    done = await command("run", "-c", str(settings.path))
    assert (done.code, done.out) == (code, ""), done.err
    assert "Traceback" not in done.err
    assert TOKEN not in done.err
    assert EXAMINED not in done.err
    return [line for line in done.err.splitlines() if not line.startswith("{")]


async def test_a_store_in_use_names_its_holder(settings: Settings) -> None:
    """Exit 1, so that systemd tries again: the other daemon may go."""
    configuration = fixture.configuration(settings.folder, fixture.unreachable("acme"))
    async with fixture.daemon(configuration):
        (line,) = await said(settings, code=1)
    assert line.startswith('error: storage.url: "sqlite:///')
    assert f"{settings.folder}/state.db is held by" in line
    assert line.endswith("; stop that process, or name another file in storage.url")


async def test_a_store_that_is_none_is_named(settings: Settings) -> None:
    """A file of another program, and a folder where the file should be."""
    store = settings.folder / "state.db"
    store.write_bytes(b"no database" * 1000)
    (line,) = await said(settings, code=1)
    assert line.startswith('error: storage.url: "sqlite:///')
    assert f"{store} is not a sound SQLite database" in line
    assert line.endswith(": restore a backup, or move the file away to start over")
    store.unlink()
    store.mkdir()
    (line,) = await said(settings, code=1)
    assert line.startswith('error: storage.url: "sqlite:///')
    assert line.endswith(f"{store} is not a regular file; choose another path")


async def test_another_daemon_on_the_address_is_named_as_such(
    settings: Settings, tmp_path: Path
) -> None:
    """Exit 2: the configuration has to change, or the other daemon to go."""
    (tmp_path / "other").mkdir()
    other = fixture.configuration(tmp_path / "other", fixture.unreachable("acme"))
    other = msgspec.structs.replace(
        other, server=ServerSettings(listen=f"127.0.0.1:{settings.port}")
    )
    async with fixture.daemon(other):
        (line,) = await said(settings, code=2)
    address = f"127.0.0.1:{settings.port}"
    assert line == (
        f"server.listen: {address} is held by another monitor, whose store is not "
        f"{tmp_path}/state.db; free the port, or change server.listen"
    )


async def test_all_addresses_in_use_are_named(settings: Settings) -> None:
    """One line for each, with its key; a program that answers nothing is called that."""
    ports = {"server": settings.port, "callbacks": settings.callbacks_port}
    with (
        socket.create_server(("127.0.0.1", settings.port)),
        socket.create_server(("127.0.0.1", settings.callbacks_port or 0)),
    ):
        lines = await said(settings, code=2)
    assert [line.partition(" is held by ")[0] for line in lines] == [
        f"{section}.listen: 127.0.0.1:{port}" for section, port in ports.items()
    ]
    assert all(
        f"change {section}.listen" in line for section, line in zip(ports, lines, strict=True)
    )


async def test_problems_of_the_file_are_all_named(settings: Settings) -> None:
    """As ``check`` prints them, a secret that cannot be read among them; exit 2."""
    (settings.folder / "acme-token").unlink()
    settings.path.write_text(settings.path.read_text() + "\n[log]\nlevel = 'loud'\n")
    lines = await said(settings, code=2)
    assert [line.split(": ")[:2] for line in lines] == [
        ["workspaces[0].token_file", '"acme-token"'],
        ["log.level", '"loud"'],
    ]
    checked = await command("check", "-c", str(settings.path))
    assert checked.err.splitlines() == lines


async def test_a_database_that_cannot_be_used_is_named(
    settings: Settings, postgres: PostgresServer
) -> None:
    """Exit 2 with key, value and hint where the configuration has to change; never a secret."""
    file = settings.path.read_text()
    url = postgres.url("absent")
    config = settings.folder / "database.toml"
    config.write_text(file.replace(f"sqlite://{settings.folder}/state.db", url))
    done = await command("run", "-c", str(config))
    assert done.code == 2
    (line,) = [line for line in done.err.splitlines() if not line.startswith("{")]
    assert line.startswith(f'storage.url: "postgresql://***@127.0.0.1:{postgres.port}/absent": ')
    assert line.endswith('database "absent" does not exist; create it, or name another one')
    assert "Traceback" not in done.err
    assert EXAMINED not in done.err
