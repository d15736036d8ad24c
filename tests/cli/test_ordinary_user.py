"""The minimal configuration as it is shipped, run by a user who owns nothing but a home."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from msgspec import Struct

from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.processes import COMMAND
from tests.servers import free_port, program

ROOT = Path(__file__).parents[2]
_UNPRIVILEGED = 65_534
_END_SECONDS = 60.0
_READ_SEARCH = 2  # the number of the capability


def ordinary() -> tuple[str, ...]:
    """Return what starts a program as an ordinary user; nothing where we are one."""
    if os.geteuid() != 0:
        return ()
    # Python itself may be in root's home: to read is allowed, to write is not.
    effective = re.search(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())
    assert effective is not None
    may_read = int(effective[1], 16) >> _READ_SEARCH & 1
    keep = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search") if may_read else ()
    user = (f"--reuid={_UNPRIVILEGED}", f"--regid={_UNPRIVILEGED}", "--clear-groups")
    return (program("setpriv"), *user, *keep, "--")


class Home(Struct, frozen=True, kw_only=True):
    """A home with the shipped configuration and a token in it."""

    folder: Path
    port: int

    @property
    def environment(self) -> Mapping[str, str]:
        dead = "127.0.0.1:9"  # no test calls the workspace of the file
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder),
            "DATAPREP_MONITOR__WORKSPACES__MARKETING__URL": f"http://{dead}",
            "DATAPREP_MONITOR__MQTT__URL": f"mqtt://{dead}",
            "DATAPREP_MONITOR__SERVER__LISTEN": f"127.0.0.1:{self.port}",
        }

    def start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*ordinary(), *COMMAND, command, "-c", "monitor.toml"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
async def home() -> AsyncIterator[Home]:
    """Lay out a home as the README says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(ROOT / "config" / "minimal.toml", folder / "monitor.toml")
        (folder / "dataprep-token").write_text("a token\n")
        (folder / "dataprep-token").chmod(0o600)
        if os.geteuid() == 0:
            for path in (folder, folder / "monitor.toml", folder / "dataprep-token"):
                os.chown(path, _UNPRIVILEGED, _UNPRIVILEGED)
        yield Home(folder=folder, port=free_port())


async def test_an_ordinary_user_runs_the_minimal_configuration(home: Home) -> None:
    """``check`` is content, the daemon starts, and its store is the user's own."""
    checked = home.start("check")
    out, err = checked.communicate(timeout=_END_SECONDS)
    assert (checked.returncode, err) == (0, "")
    store = home.folder / ".local" / "state" / "dataprep-monitor" / "state.db"
    assert f"store sqlite://{store}" in out
    daemon = home.start("run")
    try:
        await eventually(Face(home.port).answers, why="the daemon does not answer")
        daemon.send_signal(signal.SIGTERM)
        _, log = daemon.communicate(timeout=_END_SECONDS)
    finally:
        daemon.kill()
        daemon.communicate()
    assert daemon.returncode == 0, log
    found = store.stat()
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_uid == (os.geteuid() or _UNPRIVILEGED)
    assert stat.S_IMODE(store.parent.stat().st_mode) == 0o700


def test_a_place_for_services_is_none_for_an_ordinary_user(home: Home) -> None:
    """Neither ``check`` nor ``run`` leaves it to a trace: key, value, reason and hint."""
    (home.folder / "monitor.toml").write_text(
        (home.folder / "monitor.toml").read_text()
        + '\n[storage]\nurl = "sqlite:///proc/dataprep-monitor/state.db"\n'
    )
    for command, code in (("check", 2), ("run", 1)):
        process = home.start(command)
        out, err = process.communicate(timeout=_END_SECONDS)
        assert (process.returncode, out) == (code, "")
        line = err.splitlines()[-1]
        assert "storage.url" in line
        assert '"sqlite:///proc/dataprep-monitor/state.db"' in line
        assert "/proc/dataprep-monitor cannot be written" in line
        assert "name another file in storage.url" in line
