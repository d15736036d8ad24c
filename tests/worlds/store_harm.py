"""What happens to the file of the daemon's store between two of its lives."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

_FLIPPED_BYTES = 16 * 4096  # so many that some of them are of a page in use
_COMPANIONS = ("", "-wal", "-shm")


class StoreFile:
    """The store of a batch, and the copy of it that people would have."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._copy = path.with_suffix(".copy")

    @property
    def url(self) -> str:
        return f"sqlite://{self._path}"

    def back_up(self) -> None:
        """Copy it as it is, also while it is in use."""
        self._copy.unlink(missing_ok=True)
        with (
            closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(self._copy)) as target,
        ):
            source.backup(target)

    def delete(self) -> None:
        """Delete it with all that belongs to it, whoever has it open."""
        for suffix in _COMPANIONS:
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def restore(self) -> None:
        """Put the copy in its place, as a new file."""
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
