"""``store migrate`` and ``store move`` as they are typed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.cli.main import main
from tests.bus.transfer_scenes import ALL_EVENTS, fill
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


@pytest.fixture
def config(tmp_path: Path, database: str) -> Path:
    """Return a configuration of the database, beside a store of three workspaces."""
    (tmp_path / "token").write_text("a token")
    path = tmp_path / "monitor.toml"
    path.write_text(f'{WORKSPACES}[storage]\nurl = "{database}"\n')
    asyncio.run(fill(tmp_path / "state.db"))
    return path


def run(*words: str) -> int:
    return main(["store", *words])


def test_a_file_goes_into_a_database_and_back(
    config: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each workspace goes into the shard that the configuration names, and moves; all come back."""
    capsys.readouterr()
    file = f"sqlite://{config.parent}/state.db"
    assert run("migrate", file, database, "-c", str(config)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        *("shard _cluster", "shard acme", "shard gamma", "shard small", "ok"),
    ]
    assert lines[1].startswith("shard acme: 11 event, 10 run, 1 state_entry, 1 callback, ")
    assert "start no daemon on the former store" in lines[-1]

    assert run("move", "gamma", "--to", "small", "-c", str(config)) == 0
    assert capsys.readouterr().out == (
        "ok: gamma is in shard small, with 10 events and 10 runs of shard gamma; set its key shard "
        "to 'small' in every configuration\n"
    )
    back = f"sqlite://{config.parent}/back.db"
    # An output may see some again; counters may not, and have read all.
    assert run("migrate", database, back, "-c", str(config), "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["shards"][""]["event"] == len(ALL_EVENTS)
    assert (printed["ok"], printed["from"], printed["to"]) == (True, database, back)


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("migrate", "sqlite:///a.db"), 2, "write: check, or migrate FROM TO, or move WORKSPACE"),
        (("migrate", "sqlite:///a.db", "sqlite:///b.db"), 2, "two files: stop the daemon and copy"),
        (("migrate", "postgresql://db", "sqlite:///b.db"), 2, "the URL of the database names no"),
        (("migrate", "sqlite:///no.db", "{database}"), 1, "/no.db does not exist"),
        (("migrate", "{database}", "sqlite:///x/b.db"), 2, "holds no store of the monitor"),
        (("move", "acme"), 2, "--to SHARD belongs to move"),
        (("move", "acme", "--to", "A"), 2, "a shard has 1 to 63 of a-z, 0-9 and -"),
        (("move", "acme", "--to", "small"), 2, "holds no store of the monitor"),
        (("check",), 2, "store check reads a file; run doctor"),
        (("repair",), 2, "'repair' is none of check, migrate, move"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    config: Path,
    database: str,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    problem: str,
) -> None:
    """Wrong words, URLs without a database, and stores that are not there."""
    given = [word.replace("{database}", database) for word in words]
    assert run(*given, "-c", str(config)) == code
    assert problem in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("is_source", [True, False])
def test_without_the_driver_both_ways_name_what_installs_it(
    config: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_source: bool,
) -> None:
    """Exit 2 with one sentence, as the daemon and `check` have it."""
    for module in ("transfer.postgres_side", "postgres.connections.connecting"):
        monkeypatch.delitem(sys.modules, f"monitor.bus.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    urls = [f"sqlite://{config.parent}/state.db", "postgresql://db/monitor"]
    assert run("migrate", *(reversed(urls) if is_source else urls), "-c", str(config)) == 2
    assert "pip install 'dataprep-monitor[postgres]'" in capsys.readouterr().err
