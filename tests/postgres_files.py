"""Programs, user and folders of the PostgreSQL servers of tests.

`initdb` runs once a machine; each server starts on a copy of what it made. The server refuses to
run as root, so as root everything runs as user ``postgres``, in a folder which that user may read.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.servers import program

ADMINISTRATOR = "postgres"
# Words sort as people sort them, so a query that relies on the order of bytes must say so.
_INITDB = (
    *("--username", ADMINISTRATOR, "--auth", "trust", "--encoding", "UTF8", "--no-sync"),
    *("--locale", "C.UTF-8", "--locale-provider", "icu", "--icu-locale", "en-US"),
)
_MEMORY = Path("/dev/shm")  # noqa: S108 - each user's folders in it are his own
_MEMORY_BYTES = 8 * 2**30  # two dozen servers have room


@functools.cache
def folder_of_programs() -> Path:
    """Return the newest installed version's; skip without any, but fail where CI is set."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        key=lambda path: int(path.parts[-3]),
    )
    if found:
        return found[-1].parent
    reason = "postgresql is not installed; `make servers` installs it"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def owner() -> pwd.struct_passwd:
    """Return the user as whom the server runs."""
    return pwd.getpwnam(ADMINISTRATOR) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


def as_owner(*command: str | Path) -> tuple[str, ...]:
    """Return a command that runs as the server's user, and is killed if this process dies."""
    user = owner()
    change = ("--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups")
    return (
        program("setpriv"),
        *("--pdeathsig", "QUIT"),
        *(change if os.geteuid() == 0 else ()),
        *map(str, command),
    )


def make_folder(path: Path) -> None:
    """Make a folder that belongs to the server's user."""
    path.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(path, owner().pw_uid, owner().pw_gid)


def _parent() -> Path:
    # To make a database in memory takes a tenth of the system time that a file system takes.
    is_near = tempfile.gettempdir() == str(_MEMORY)  # as tests/conftest.py decides
    if is_near and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES:
        return _MEMORY
    return Path("/tmp")  # noqa: S108 - the owner of what is in it is checked


@functools.cache
def home() -> Path:
    """Return the folder of this machine's servers, without those of tests that were killed."""
    folder = _parent() / f"dataprep-monitor-postgres-{os.geteuid()}"
    make_folder(folder)
    if folder.stat().st_uid != owner().pw_uid:
        pytest.fail(f"{folder} belongs to another user")
    for left in folder.glob("server-*"):
        if not Path("/proc", left.name.split("-")[1]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return folder


@functools.cache
def template() -> Path:
    """Return a data folder to be copied; the first process on this machine makes it."""
    programs = folder_of_programs()
    options = hashlib.sha256(repr(_INITDB).encode()).hexdigest()[:8]
    made = home() / f"template-{programs.parts[-2]}-{options}"
    with (home() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = made.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            run(programs / "initdb", *_INITDB, "--pgdata", unfinished)
            unfinished.rename(made)
    return made


def run(*command: str | Path) -> None:
    """Run a program as the server's user; the test fails where the program does."""
    done = subprocess.run(
        as_owner(*command), capture_output=True, text=True, check=False, cwd=home()
    )
    if done.returncode != 0:
        pytest.fail(f"{command[0]}: {done.stderr or done.stdout}")
