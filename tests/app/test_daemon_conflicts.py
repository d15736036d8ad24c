"""Conflicts: a second daemon, or an address in use."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.app.processes import Settings, Watched, command, daemon_process
from tests.servers import free_port


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    # No server answers there, and none is needed.
    return Settings(tmp_path, Watched("acme", f"http://127.0.0.1:{free_port()}", "a token"))


async def test_a_second_daemon_on_one_store_names_the_first(settings: Settings) -> None:
    """It exits 1 with one sentence, which holds the process id; the first one lives on."""
    async with daemon_process(settings) as first:
        second = await command("run", "-c", str(settings.path))
        assert second.code == 1
        received = [line for line in second.err.splitlines() if line.startswith("error: ")]
        assert len(received) == 1
        assert f"is held by process {first.process_id} since" in received[0]
        assert "Traceback" not in second.err
        assert await first.face.answers()


async def test_a_port_in_use_is_a_problem_of_the_configuration(settings: Settings) -> None:
    """The address of the server is taken: exit 2 and the key, in one line."""
    with socket.create_server(("127.0.0.1", settings.port)):
        done = await command("run", "-c", str(settings.path))
    assert done.code == 2
    received = [line for line in done.err.splitlines() if line.startswith("server.listen: ")]
    assert len(received) == 1
    assert str(settings.port) in received[0]
    assert "Traceback" not in done.err
