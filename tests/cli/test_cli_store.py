"""``store check`` examines the whole file, and leaves it and everything beside it as it was."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite import SqliteBus
from monitor.cli.main import main
from tests.bus.examples import SOON, events, log_of
from tests.clocks import ManualClock

EVENTS = 30


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return the closed store of the configuration ``monitor.toml`` beside it."""
    (tmp_path / "token").write_text("a token")
    (tmp_path / "monitor.toml").write_text(
        '[[workspaces]]\nname = "acme"\nurl = "https://api.example.com"\ntoken_file = "token"\n'
        f'[storage]\nurl = "sqlite://{tmp_path}/state.db"\n'
    )

    async def fill() -> None:
        bus = await open_store(tmp_path / "state.db")
        await bus.commit(events(*range(1, EVENTS + 1)), timeout_seconds=SOON)
        await bus.close()

    asyncio.run(fill())
    return tmp_path / "state.db"


async def open_store(path: Path) -> SqliteBus:
    return await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())


def check(store: Path, *options: str) -> int:
    return main(["store", "check", "-c", str(store.with_name("monitor.toml")), *options])


def change(store: Path, statement: str) -> None:
    with closing(sqlite3.connect(store)) as db, db:
        db.execute(statement)


def test_a_sound_store_is_ok(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit code 0, and not a file or byte is changed."""
    before = {path: path.read_bytes() for path in store.parent.iterdir()}
    assert check(store) == 0
    assert {path: path.read_bytes() for path in store.parent.iterdir()} == before
    assert capsys.readouterr().out == (
        f"ok: {store} ({len(before[store]):,} bytes): every page, event and row is sound\n"
    )


def test_all_damage_is_listed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A hole and two unreadable rows: a line each, one error with the way out, exit code 1."""
    change(store, "DELETE FROM event WHERE position = 7")
    change(store, "UPDATE event SET body = x'7b' WHERE position IN (3, 20)")
    assert check(store) == 1
    captured = capsys.readouterr()
    found = [line.split()[0] for line in captured.out.splitlines()]
    assert found == ["part", "log", "rows", "rows"]
    assert "event 6 where 7 belongs" in captured.out
    assert captured.err == (
        f"error: the store {store} is damaged: 3 problems found: restore a backup, or move the "
        "file away to start over\n"
    )


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.9])
def test_flipped_bytes_are_found(
    store: Path, capsys: pytest.CaptureFixture[str], place: float
) -> None:
    """At the front or in the middle: exit code 1 and no trace."""
    content = bytearray(store.read_bytes())
    page = int(len(content) / 4_096 * place) * 4_096
    content[page : page + 64] = bytes(64)
    store.write_bytes(content)
    assert check(store, "--json") == 1
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert not report["ok"]
    assert report["problems"]
    assert captured.err.count("\n") == 1


def test_a_store_in_use_is_checked_beside_its_daemon(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The holder is named, what it has not yet written back is seen, and it goes on."""

    async def check_beside() -> None:
        bus = await open_store(store)
        await bus.commit(events(99), timeout_seconds=SOON)
        assert await asyncio.to_thread(check, store, "--json") == 0
        await bus.commit(events(100), timeout_seconds=SOON)
        assert len(await log_of(bus)) == EVENTS + 2
        await bus.close()

    asyncio.run(check_beside())
    report = json.loads("{" + capsys.readouterr().out.partition("{")[2].rpartition("}")[0] + "}")
    assert report["ok"]
    assert report["held_by"].startswith("process ")
    assert check(store) == 0


def test_no_store_is_made(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there is reported, and not there afterwards."""
    store.unlink()
    assert check(store) == 1
    assert "does not exist" in capsys.readouterr().err
    assert not store.exists()


def test_a_foreign_database_is_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another program's file is no damaged store."""
    store.unlink()
    change(store, "CREATE TABLE theirs (x)")
    assert check(store) == 1
    assert "not a store of the monitor" in capsys.readouterr().out


def test_another_action_is_wrong_usage(store: Path) -> None:
    """Exit code 2, as for every wrong word."""
    assert main(["store", "mend", "-c", str(store.with_name("monitor.toml"))]) == 2
