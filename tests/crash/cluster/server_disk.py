"""A database server on a disk of its own that can be full."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from typing import Any

import asyncpg
import pytest

from tests.app.eventually import eventually
from tests.postgres_server import PostgresServer

_DISK = "size=1g,mode=700"
_REFUSALS = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)
_TRIES = 5  # it may write while its disk is measured


class ServerWithDisk(PostgresServer):
    """Its folder is a file system in memory, which shrinks to what is on it to be full."""

    def __init__(self, **chosen: Any) -> None:
        if os.geteuid() != 0 or shutil.which("mount") is None:
            pytest.skip("only root may mount a small file system")
        super().__init__(**chosen)
        self.folder.mkdir(mode=0o700)
        place = ("-t", "tmpfs", "-o", _DISK, "none", str(self.folder))
        if subprocess.run(("mount", *place), check=False, capture_output=True).returncode != 0:
            self.folder.rmdir()
            pytest.skip("this machine does not allow mounting a small file system")

    def fill_disk(self, room_kibibytes: int) -> None:
        """Leave so much room on it."""
        for _ in range(_TRIES):
            used = -(-shutil.disk_usage(self.folder).used // 1024)
            if self._resize(f"size={used + room_kibibytes}k"):
                return
        pytest.fail("the disk grew faster than it could be filled")

    async def need_new_log_file(self) -> None:
        """Let it write to the next file of its log, without which it cannot go on."""
        with contextlib.suppress(*_REFUSALS):
            await self.execute("SELECT pg_switch_wal()")
            await self.execute("CHECKPOINT")

    async def free_disk(self) -> None:
        """Give it room again; return when the server takes writes, if need be after a start."""
        assert self._resize(_DISK)

        async def takes_writes() -> bool:
            if not self.is_running:
                await self.start()
            with contextlib.suppress(*_REFUSALS):
                return not await self.value("SELECT pg_is_in_recovery()")
            return False

        await eventually(takes_writes, why=lambda: self.log[-3000:])

    def discard(self) -> None:
        super().discard()
        if self.folder.exists():
            # Lazily: what has just been killed may still have a file of it.
            subprocess.run(("umount", "--lazy", str(self.folder)), check=True)
            self.folder.rmdir()

    def _resize(self, size: str) -> bool:
        remounting = ("mount", "-o", f"remount,{size}", str(self.folder))
        return subprocess.run(remounting, check=False, capture_output=True).returncode == 0
