"""A command may print any secret: without a shell, within its limits."""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from monitor.cli.secret_commands import output_of
from monitor.cli.settings_files import validate_file
from monitor.config.keys import Kind
from monitor.config.sections import SECTIONS
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret

_CONFIGURATION = """
[[workspaces]]
name = "north"
url = "https://api.example.com"
[workspaces.oauth]
token_url = "https://auth.example.com/as/token"
client_id = "af08"
refresh_token_command = {}
"""

_EVERY_SECRET = """
[[workspaces]]
name = "north"
url = "https://api.example.com"
token_command = "cat token"
[workspaces.callbacks]
secret_command = "cat token"
signing_secret_command = "cat token"
former_secret_command = "cat key"
former_secret_expires_at = 2027-11-23T00:00:00Z
[callbacks]
[storage]
url = "postgresql://monitor@127.0.0.1/monitor"
password_command = "cat token"
[server]
token_command = "cat token"
[server.oidc]
issuer = "https://login.example.com"
client_id = "monitor"
client_secret_command = "cat token"
[mqtt]
username = "monitor"
password_command = "cat token"
[alertmanager]
urls = ["http://127.0.0.1:9093"]
token_command = "cat token"
[webhook]
url = "https://hooks.example.com"
secret_command = "cat key"
former_secret_command = "cat key"
[[notify]]
name = "team"
url_command = "echo json://channel.example.com"
"""


def check(folder: Path, command: str) -> tuple[Secret | None, list[str]]:
    """Return the refresh token that a file with this command has, and its problems."""
    path = folder / "monitor.toml"
    path.write_text(_CONFIGURATION.format(command))
    result = validate_file(path, dict(os.environ))
    problems = [str(problem) for problem in result.problems]
    if result.configuration is None:
        return None, problems
    oauth = result.configuration.workspaces[0].workspace.oauth
    assert oauth is not None
    return oauth.refresh_token, problems


@pytest.mark.parametrize(
    "command",
    ["\"cat 'my token'\"", '["cat", "my token"]', '"/bin/sh -c \'cat \\"my token\\"\'"'],
)
def test_a_command_is_a_text_or_a_list(tmp_path: Path, command: str) -> None:
    """It runs beside the configuration file; a line end after the token is ignored."""
    (tmp_path / "my token").write_text("the token\n")
    token, problems = check(tmp_path, command)
    assert problems == []
    assert token == Secret("the token")


def test_every_secret_may_come_from_a_command(tmp_path: Path) -> None:
    """So a vault needs no code of ours; each key of the reference has this form."""
    (tmp_path / "token").write_text("a secret of more than 16 characters 1a2b3c")
    (tmp_path / "key").write_text("whsec_" + "a" * 32)
    path = tmp_path / "monitor.toml"
    path.write_text(_EVERY_SECRET)
    result = validate_file(path, dict(os.environ))
    assert [str(problem) for problem in result.problems] == []
    assert result.configuration is not None
    assert all(secret.can_change for secret in result.configuration.secrets())
    assert len(result.configuration.secrets()) == _EVERY_SECRET.count("_command")
    sections = [section for section in SECTIONS if section.path != "workspaces.oauth"]
    keys = {key.name for section in sections for key in section.keys if key.kind is Kind.SECRET}
    assert all(f"\n{key}_command = " in _EVERY_SECRET for key in keys)


def test_no_shell_reads_it(tmp_path: Path) -> None:
    """Text that only a shell would expand stays as it is."""
    token, _ = check(tmp_path, '"echo $HOME `id` > file"')
    assert token == Secret("$HOME `id` > file")


def test_it_is_run_again(tmp_path: Path) -> None:
    """The program's later output is read when the daemon asks again."""
    (tmp_path / "token").write_text("first")
    token, _ = check(tmp_path, '"cat token"')
    assert token is not None
    (tmp_path / "token").write_text("second")
    assert token.read_again() == Secret("second")
    (tmp_path / "token").write_text("")
    with pytest.raises(ConfigurationError, match="empty"):
        token.read_again()
    (tmp_path / "token").write_text("third")
    assert token.read_again().read_again() == Secret("third")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ('"cat hidden-word"', '"cat": the command failed with exit code 1; '),
        ('"no-such-program hidden-word"', '"no-such-program": the command cannot be started'),
        ('"true"', "***: the secret is empty; put it there"),
        ('"head -c 100000 /dev/zero"', '"head": the command prints too much for a secret'),
        ('"cat \'hidden-word"', "must be a command that prints nothing else"),
        ("[]", "must be a command that prints nothing else"),
        ('["cat", 5]', "must be a command that prints nothing else"),
        ('"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9abcdefghijklmnop"', "***: must be a command"),
        (f'["{sys.executable}", "-c", "print(chr(10))"]', "the secret"),
    ],
)
def test_a_command_that_cannot_be_used(tmp_path: Path, command: str, problem: str) -> None:
    """One sentence says why, and shows no argument, which may be secret."""
    _, problems = check(tmp_path, command)
    assert len(problems) == 1
    assert problems[0].startswith("workspaces[0].oauth.refresh_token_command: ")
    assert problem in problems[0]
    if problem.startswith('"'):
        assert "hidden-word" not in problems[0]


def test_one_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """After its time nothing of it is left, however it holds on."""
    mark = tmp_path / "pid"
    script = f"sleep 600 & echo $! > {mark}; trap '' TERM; wait"
    limits: dict[str, Any] = {"folder": tmp_path, "environment": os.environ, "limit_bytes": 100}
    began = time.monotonic()
    with pytest.raises(ConfigurationError, match="did not end within 1 s"):
        output_of(["/bin/sh", "-c", script], limit_seconds=1, **limits)
    assert time.monotonic() - began < 20
    assert ends(int(mark.read_text()))


def ends(process_id: int) -> bool:
    """Return True once the process has ended; a killed one may still wait for a processor."""
    try:
        handle = os.pidfd_open(process_id)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 20)[0])
    finally:
        os.close(handle)
