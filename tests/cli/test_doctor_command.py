"""The command ``doctor`` as a process, beside a daemon and without one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.processes import Settings, Watched, command, daemon_process
from tests.servers import Mosquitto


@contextlib.asynccontextmanager
async def a_set_up(folder: Path) -> AsyncIterator[tuple[Settings, Mosquitto]]:
    """A workspace, a broker and the configuration that names both."""
    workspace = fixture.sandbox()
    async with fixture.started(workspace) as url, Mosquitto(folder) as broker:
        watched = Watched("acme", url, workspace.token)
        yield Settings(folder, watched, broker_url=broker.url, with_callbacks=True), broker


async def test_beside_a_healthy_daemon_every_line_is_ok(tmp_path: Path) -> None:
    """Exit 0, one line a check, and the daemon keeps its store and its connection."""
    async with a_set_up(tmp_path) as (settings, broker), daemon_process(settings) as daemon:
        await eventually(lambda: daemon.face.is_following("acme"), why="not followed")
        await eventually(daemon.face.has_webhook_tasks, why="no webhook tasks")
        done = await command("doctor", config=settings.path)
        process_id, log = daemon.process_id, list(broker.lines)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [line for line in lines if not line.startswith("ok       ")] == []
    assert len(lines) == 23
    assert f"held by the running daemon, process {process_id} since" in done.out
    assert "acme webhook tasks: 8 registered" in done.out
    assert [line for line in log if "already connected" in line] == []


async def test_a_broken_set_up_exits_1_with_the_way_out(tmp_path: Path) -> None:
    """Neither workspace nor broker is there: two lines have failed, and no trace is printed."""
    watched = Watched("acme", "http://127.0.0.1:9", "the-token-itself")
    settings = Settings(tmp_path, watched, broker_url="mqtt://127.0.0.1:9", with_callbacks=True)
    done = await command("doctor", config=settings.path)
    assert (done.code, done.err) == (1, "")
    failed = [line for line in done.out.splitlines() if line.startswith("failed")]
    assert [line.split(": ")[0] for line in failed] == [
        "failed   mqtt connection",
        "failed   acme reachability",
    ]
    assert "; see that" in failed[0]
    assert "; correct host and port in url" in failed[1]
    assert "the-token-itself" not in done.out
    assert fixture.SECRET not in done.out


async def test_a_program_gets_the_same_as_json(tmp_path: Path) -> None:
    """One document with outcome, subject, result and hint of each line; the same exit code."""
    settings = Settings(tmp_path, Watched("acme", "http://127.0.0.1:9", "a token"))
    done = await command("doctor", "--json", config=settings.path)
    rows = json.loads(done.out)
    assert done.code == 1
    assert "no notifications are sent: no output is configured" in rows[1]["hint"]
    assert [row["subject"] for row in rows[:9]] == [
        "configuration",
        "configuration",  # the warning
        "configuration file",
        "secret files",
        "file descriptors",
        "server access",
        "server address",
        "callbacks address",
        "store",
    ]
    assert set(rows[0]) == {"outcome", "subject", "found", "hint"}


async def test_one_workspace_may_be_chosen(tmp_path: Path) -> None:
    """Only the named workspace is checked; a name that is not configured is wrong usage."""
    gone = "http://127.0.0.1:9"
    settings = Settings(tmp_path, Watched("acme", gone, "t"), Watched("other", gone, "t"))
    chosen = await command("doctor", "-w", "other", config=settings.path)
    assert "other reachability" in chosen.out
    assert "acme reachability" not in chosen.out
    wrong = await command("doctor", "-w", "third", config=settings.path)
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == "workspace 'third' is not configured; known: acme, other\n"


async def test_a_configuration_at_fault_fails_line_by_line(tmp_path: Path) -> None:
    """Every problem has its line, and nothing else is checked."""
    path = tmp_path / "monitor.toml"
    path.write_text('[[workspaces]]\nname = "Acme"\nurl = "ftp://acme"\n')
    done = await command("doctor", config=path)
    lines = done.out.splitlines()
    assert (done.code, done.err) == (1, "")
    assert len(lines) > 1
    assert all(line.startswith("failed   configuration: workspaces[0].") for line in lines)
