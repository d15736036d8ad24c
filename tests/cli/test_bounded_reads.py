"""What the configuration names may be a pipe without a writer: every read of it ends."""

from __future__ import annotations

import fcntl
import os
import resource
import threading
import time
from pathlib import Path

import pytest

from monitor.cli import settings_files
from monitor.cli.bounded_reads import read_until
from monitor.cli.settings_files import validate_file
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret

_CONFIGURATION = """
[[workspaces]]
name = "north"
url = "https://api.example.com"
token_file = "token"
[mqtt]
username = "monitor"
"""


@pytest.fixture(name="path")
def _path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a configuration file whose secrets are waited for only shortly."""
    monkeypatch.setattr(settings_files, "READ_SECONDS", 0.2)
    (tmp_path / "token").write_text("the token")
    return tmp_path / "monitor.toml"


def problems(path: Path, line: str) -> list[str]:
    """Return the problems of the configuration with one more line."""
    path.write_text(f"{_CONFIGURATION}{line}\n")
    return [str(problem) for problem in validate_file(path, {}).problems]


def test_a_pipe_without_a_writer_is_a_problem_of_its_key(path: Path) -> None:
    """It is given up after its time, with one sentence, where it stopped everything before."""
    os.mkfifo(path.parent / "pipe")
    assert problems(path, 'password_file = "pipe"') == [
        'mqtt.password_file: "pipe": is a pipe that does not end within 0.2 s; name a file'
    ]


def test_a_pipe_whose_writer_never_ends_is_a_problem_too(path: Path) -> None:
    """What comes in pieces has no more time than what does not come."""
    os.mkfifo(path.parent / "pipe")
    writer = os.open(path.parent / "pipe", os.O_RDWR)
    os.write(writer, b"half of")
    assert len(problems(path, 'password_file = "pipe"')) == 1
    os.close(writer)


def test_a_pipe_that_is_written_to_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So may a shell hand a secret over, as in ``<(command)``."""
    monkeypatch.setattr(settings_files, "READ_SECONDS", 20)
    os.mkfifo(path.parent / "pipe")
    (path.parent / "monitor.toml").write_text(f'{_CONFIGURATION}password_file = "pipe"\n')
    writer = threading.Thread(target=(path.parent / "pipe").write_text, args=["from a pipe"])
    writer.start()
    configuration = validate_file(path, {}).configuration
    writer.join()
    assert configuration is not None
    assert Secret("from a pipe") in configuration.secrets()


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_a_named_file_that_is_none_is_refused(path: Path, make: object) -> None:
    """Of certificates a library reads the file itself, without a limit."""
    assert callable(make)
    make(path.parent / "authorities.pem")
    (problem,) = problems(path, 'ca_file = "authorities.pem"')
    assert problem.startswith("mqtt.ca_file: ")
    assert problem.endswith("is no regular file; name one that is")


def test_reading_again_ends_too(path: Path) -> None:
    """A token whose file has become a pipe occupies a thread no longer."""
    path.write_text(_CONFIGURATION)
    configuration = validate_file(path, {}).configuration
    assert configuration is not None
    token = configuration.workspaces[0].workspace.token
    assert token is not None
    (path.parent / "token").unlink()
    os.mkfifo(path.parent / "token")
    with pytest.raises(ConfigurationError, match="does not end within"):
        token.read_again()


def test_it_works_beside_thousands_of_connections() -> None:
    """A daemon with many connections has descriptors that `select` does not take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    reader, writer = os.pipe()
    try:
        high = fcntl.fcntl(reader, fcntl.F_DUPFD_CLOEXEC, 1_500)
        os.write(writer, b"secret")
        os.close(writer)
        ends_at = time.monotonic() + 10
        assert read_until(high, limit_bytes=100, ends_at=ends_at) == b"secret"
        os.close(high)
    finally:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
