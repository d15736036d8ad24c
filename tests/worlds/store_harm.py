"""What happens to the daemon's store between two of its lives: to a file, or to a database."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Protocol

from tests.paced_clock import Pace, PaceDatabase, PaceFile
from tests.postgres_files import folder_of_programs

_FLIPPED_BYTES = 16 * 4096  # so many that some of them are of a page in use
_LONGEST_SECONDS = 60.0  # that a program of the server may take
_COMPANIONS = ("", "-wal", "-shm")


class BatchStore(Protocol):
    """The store of a batch, and the copy of it that people would have.

    Nothing here awaits, so the worlds' clock stands still meanwhile.
    """

    ends_daemon: bool  # whose store is deleted; else it waits until it is there again

    @property
    def url(self) -> str: ...

    def pace(self) -> Pace:
        """Return what is as slow as its commits, for the clock of the worlds."""

    def back_up(self) -> None:
        """Copy it as it is, also while it is in use."""

    def delete(self) -> None:
        """Delete it with all that belongs to it, also while processes have it open."""

    def restore(self) -> None:
        """Put the copy in its place, as a new store, where it was deleted."""


class StoreFile:
    """A file, which is deleted or damaged under its daemon."""

    ends_daemon = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._copy = path.with_suffix(".copy")

    @property
    def url(self) -> str:
        return f"sqlite://{self._path}"

    def pace(self) -> Pace:
        return PaceFile(self._path.with_suffix(".pace"))

    def back_up(self) -> None:
        self._copy.unlink(missing_ok=True)
        with (
            closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(self._copy)) as target,
        ):
            source.backup(target)

    def delete(self) -> None:
        for suffix in _COMPANIONS:
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def restore(self) -> None:
        self.delete()
        self._path.write_bytes(self._copy.read_bytes())

    def flip(self, share: float) -> None:
        """Flip some bytes at that share of its length."""
        with self._path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(int(max(0, size - _FLIPPED_BYTES) * share))
            content = file.read(_FLIPPED_BYTES)
            file.seek(-len(content), os.SEEK_CUR)
            file.write(bytes(byte ^ 0xFF for byte in content))


class StoreDatabase:
    """A new database of a server; the server itself sees to it that its files are sound."""

    ends_daemon = False

    def __init__(self, server_url: str, name: str, copy: Path) -> None:
        self._server_url = server_url
        self._name = name
        self._copy = copy
        self._create()

    @property
    def url(self) -> str:
        return f"{self._server_url.rpartition('/')[0]}/{self._name}"

    def pace(self) -> Pace:
        return PaceDatabase(self._server_url)

    def back_up(self) -> None:
        _run("pg_dump", "--format=custom", f"--file={self._copy}", self.url)

    def delete(self) -> None:
        _run("dropdb", "--if-exists", "--force", *self._at_server())

    def restore(self) -> None:
        self._create()
        _run("pg_restore", "--exit-on-error", f"--dbname={self.url}", str(self._copy))

    def _create(self) -> None:
        _run("createdb", *self._at_server())

    def _at_server(self) -> tuple[str, str]:
        return f"--maintenance-db={self._server_url}", self._name


def _run(program: str, *arguments: str) -> None:
    subprocess.run(
        (folder_of_programs() / program, *arguments), check=True, timeout=_LONGEST_SECONDS
    )
