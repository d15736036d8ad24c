"""``access``: a new token lets its holder in, and nothing keeps it."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.cli.main import main

CONFIG = """
[[workspaces]]
name = "acme"
url = "http://127.0.0.1:1"
token_env = "WORKSPACE_TOKEN"
"""


def typed(*words: str) -> int:
    return main(["access", *words])


def test_a_new_entry_can_be_pasted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ``add`` prints is TOML that ``list`` reads, and holds the hash, never the token."""
    monkeypatch.setenv("WORKSPACE_TOKEN", "the token of a workspace")
    globs = ("--workspace", "acme", "--workspace", "finance*")
    assert typed("add", "ada", "--role", "operate", *globs, "--expires-in", "90d") == 0
    lines = capsys.readouterr().out.splitlines()
    token, entry = lines[1].strip(), "\n".join(line.strip() for line in lines[3:])
    file = tmp_path / "monitor.toml"
    file.write_text(CONFIG + entry)
    assert typed("list", "-c", str(file), "--output", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    ends_at = datetime.fromisoformat(row["expires_at"])

    assert token.startswith("ada.")
    assert token not in entry
    assert tomllib.loads(entry)["access"][0]["role"] == "operate"
    assert (row["name"], row["role"], row["known_by"]) == ("ada", "operate", "token")
    assert row["workspaces"] == "acme, finance*"
    assert timedelta(days=89) < ends_at - datetime.now(UTC) <= timedelta(days=90)


def test_programs_get_token_and_entry_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Each call makes another token."""
    assert typed("add", "prometheus", "--role", "metrics", "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert typed("add", "prometheus", "--role", "metrics", "--json") == 0
    second = json.loads(capsys.readouterr().out)

    assert set(first["entry"]) == {"name", "role", "token_hash"}
    assert first["token"] != second["token"]
    assert first["entry"]["token_hash"] != second["entry"]["token_hash"]


def test_all_ways_in_are_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token of the server, users and groups; what is over is called so."""
    monkeypatch.setenv("WORKSPACE_TOKEN", "the token of a workspace")
    monkeypatch.setenv("SERVER_TOKEN", "the token of the server")
    file = tmp_path / "monitor.toml"
    entry = '[[access]]\nname = "night"\nrole = "read"\nusers = "eve"\ngroups = ["ops", "staff"]\n'
    over = "expires_at = 2020-01-01T00:00:00Z\n"
    file.write_text(f'{CONFIG}\n[server]\ntoken_env = "SERVER_TOKEN"\n{entry}{over}')
    assert typed("list", "-c", str(file), "--json") == 0
    server, night = json.loads(capsys.readouterr().out)

    assert (server["name"], server["role"], server["workspaces"]) == ("token", "admin", "all")
    assert night["known_by"] == "user eve, group ops, group staff (expired)"


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        (["add", "ada.b", "--role", "read"], ["NAME: 'ada.b': use 1 to 128 of A-Z"]),
        (["add", "ada", "--role", "raed"], ["--role: 'raed' is none of", "did you mean read?"]),
        (["add", "ada"], ["write: list, or add NAME --role ROLE"]),
        (["add", "--role", "read"], ["write: list, or add NAME --role ROLE"]),
        (["list", "--expires-in", "1d"], ["--expires-in belongs to add"]),
        (["list", "--workspace", "acme"], ["--workspace belongs to add"]),
        (["add", "ada", "--role", "read", "--workspace", ""], ["--workspace: '' fits no name"]),
        (["remove", "ada"], ["'remove' is none of add, list"]),
        (["add", "a", "--role", "read", "--expires-in", "soon"], ["is no length of time"]),
        (["add", "a", "--role", "read", "--expires-in", "9999999w"], ["after the year 9999"]),
    ],
)
def test_wrong_words_are_named(
    capsys: pytest.CaptureFixture[str], words: list[str], problems: list[str]
) -> None:
    """Exit 2 with what is wrong, and no token."""
    assert typed(*words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    for problem in problems:
        assert problem in " ".join(err.split())
