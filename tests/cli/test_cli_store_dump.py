"""``store export`` and ``store import`` as they are typed."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.cli.main import main
from tests.bus.dump_scenario import ALL_EVENTS, fill
from tests.postgres_server import PostgresServer

WORKSPACES = """
[[workspaces]]
name = "acme"
url = "https://api.example.com"
token_file = "token"
[[workspaces]]
name = "beta"
url = "https://api.example.com"
token_file = "token"
shard = "small"
"""


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """Return the URL of a new database."""
    name = asyncio.run(postgres.create_database())
    yield postgres.url(name)
    asyncio.run(postgres.drop_database(name))


def configured(folder: Path, name: str, url: str) -> str:
    """Write a configuration of a store, and return its path."""
    (folder / "token").write_text("a token")
    (folder / f"{name}.toml").write_text(f'{WORKSPACES}[storage]\nurl = "{url}"\n')
    return str(folder / f"{name}.toml")


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Return the configuration of a file with three workspaces."""
    asyncio.run(fill(tmp_path / "state.db"))
    return configured(tmp_path, "file", f"sqlite://{tmp_path}/state.db")


def run(*words: str) -> int:
    return main(["store", *words])


def test_a_file_goes_into_a_database_and_back(
    config: str, tmp_path: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both commands print what each shard has; programs get the same as JSON."""
    capsys.readouterr()
    dump = str(tmp_path / "a.dump")
    assert run("export", dump, "-c", config) == 0
    [counts, last] = capsys.readouterr().out.splitlines()
    assert counts == (
        "shard (all): 4 consumer, 1 dead_letter, 33 event, 30 run, 5 state_entry, 2 callback, "
        "13 consumer_state, 2 store_entry"
    )
    assert last.startswith(f"ok: {dump} (")

    of_database = configured(tmp_path, "database", database)
    assert run("import", dump, "-c", of_database) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        *("shard _cluster", "shard acme", "shard gamma", "shard small", "ok"),
    ]
    assert "start no daemon on the store that was exported any more" in lines[-1]
    assert captured.err == ""  # a progress bar is for a terminal

    back, returned = str(tmp_path / "b.dump"), f"sqlite://{tmp_path}/back.db"
    assert run("export", back, "-c", of_database, "--json") == 0
    exported = json.loads(capsys.readouterr().out)
    assert set(exported["shards"]) == {"_cluster", "acme", "gamma", "small"}
    assert len(exported["sha256"]) == 64
    assert run("import", back, "-c", configured(tmp_path, "back", returned), "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["shards"][""]["event"] == len(ALL_EVENTS)
    assert (printed["ok"], printed["file"]) == (True, back)


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("export",), 2, "write: check, or export FILE, or import FILE"),
        (("check", "a.dump"), 2, "write: check, or export FILE, or import FILE"),
        (("repair",), 2, "'repair' is none of check, export, import"),
        (("import", "a.dump", "-w", "acme"), 2, "--workspace or --shard, not both, belongs to"),
        (("export", "a.dump", "-w", "acme", "--shard", "a"), 2, "--workspace or --shard, not both"),
        (("export", "a.dump", "-w", "no"), 2, "has no workspace 'no'"),
        (("export", "a.dump", "--shard", "no"), 2, "has no shard 'no'"),
        (("export", "no/a.dump"), 1, "no/a.dump.unfinished cannot be written: No such file"),
        (("import", "no.dump"), 1, "no.dump cannot be read: No such file or directory"),
        (("import", "other.gz"), 1, "other.gz is no dump that store export has written"),
        (("import", "token"), 1, "token is no dump that store export has written"),
    ],
)
def test_an_impossible_request_is_one_sentence(
    config: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    problem: str,
) -> None:
    """Wrong words, files that are no dumps, and parts that the store does not have."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.gz").write_bytes(gzip.compress(b"else\n"))
    assert run(*words, "-c", config) == code
    assert problem in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not list(tmp_path.glob("a.dump*"))


def test_an_empty_database_is_not_exported(
    tmp_path: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor made."""
    config = configured(tmp_path, "database", database)
    assert run("export", str(tmp_path / "a.dump"), "-c", config) == 2
    assert "holds no store of the monitor" in capsys.readouterr().err
    assert run("check", "-c", config) == 2
    assert "store check reads a file; run doctor" in capsys.readouterr().err


def test_without_the_driver_both_ways_name_what_installs_it(
    config: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit 2 with one sentence, as the daemon and `check` have it."""
    dump = str(tmp_path / "a.dump")
    assert run("export", dump, "-c", config) == 0
    for module in ("dump.postgres_store", "postgres.connections.connecting"):
        monkeypatch.delitem(sys.modules, f"monitor.bus.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    of_database = configured(tmp_path, "database", "postgresql://db/monitor")
    for words in (("import", dump), ("export", str(tmp_path / "b.dump"))):
        capsys.readouterr()
        assert run(*words, "-c", of_database) == 2
        assert "pip install 'dataprep-monitor[postgres]'" in capsys.readouterr().err
