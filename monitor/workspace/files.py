"""Files that travel between a workspace and this machine: packages and PDFs, piece by piece."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

import aiohttp
from msgspec import Struct

from monitor.model.errors import LocalFileError

# Called with the bytes that have arrived and that will arrive; None where that is not announced.
OnProgress = Callable[[int, int | None], None]


class BodyReceiver(Protocol):
    """Takes the body of a good answer as it arrives."""

    async def begin(self, size_bytes: int | None) -> None:
        """Start, or start again where an earlier try broke off in the middle."""

    async def take(self, piece: bytes) -> None:
        """Take the next piece."""


class Upload(Struct, frozen=True, kw_only=True):
    """A file to be sent as the field ``data`` of a form; it is read again for each try."""

    path: Path
    content_type: str = "application/zip"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[aiohttp.FormData]:
        """Hold the file open as long as it may be read.

        Raises:
            LocalFileError: it cannot be opened.
        """
        try:
            file = await asyncio.to_thread(self.path.open, "rb")
        except OSError as exc:
            raise LocalFileError(f"{self.path} cannot be read: {exc.strerror}") from exc
        with file:
            form = aiohttp.FormData()
            form.add_field("data", file, filename=self.path.name, content_type=self.content_type)
            yield form


class FileReceiver:
    """Writes what arrives to a file, which gets its name only when it is whole.

    An async context manager: left by an error, it leaves nothing behind, and what stood at
    ``path`` before stands there still. A device or a pipe is written to at once instead.
    Every method may raise `LocalFileError`.
    """

    def __init__(self, path: Path, *, on_progress: OnProgress | None = None) -> None:
        self._path = path
        target = Path(os.path.realpath(path))  # a link stays one
        self._is_replaced = target.is_file() or not target.exists()
        self._target = target
        self._part = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex}.part")
        self._on_progress = on_progress
        self._file: IO[bytes] | None = None
        self._size_bytes: int | None = None
        self.received_bytes = 0

    @property
    def is_begun(self) -> bool:
        """True when there was a body to write, be it an empty one."""
        return self._file is not None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # In this thread: a file that was written is closed and named without delay, and a
        # cancelled download must not leave before its remains are gone.
        if self._file is None:
            return
        try:
            self._file.close()
            if self._is_replaced and error is None:
                self._part.replace(self._target)
        except OSError as exc:
            raise self._failure(exc) from exc
        finally:
            if self._is_replaced:
                self._part.unlink(missing_ok=True)

    async def begin(self, size_bytes: int | None) -> None:
        """Open the file, or empty it after a try that broke off."""
        self._size_bytes = size_bytes
        if self._file is not None and self.received_bytes and not self._is_replaced:
            raise LocalFileError(
                f"the answer broke off, and what {self._path} took cannot be taken back"
            )
        try:
            if self._file is None and self._is_replaced:
                # In this thread: a cancelled call must know the file that it has made.
                self._file = self._part.open("xb")
            elif self._file is None:
                # A pipe opens when it is read.
                self._file = await asyncio.to_thread(self._target.open, "wb")
            elif self.received_bytes:
                self._file.seek(0)
                self._file.truncate()
        except OSError as exc:
            raise self._failure(exc) from exc
        self.received_bytes = 0
        self._report()

    async def take(self, piece: bytes) -> None:
        """Write the next piece."""
        assert self._file is not None  # noqa: S101 - a body begins before it continues
        try:
            await asyncio.to_thread(self._file.write, piece)
        except OSError as exc:
            raise self._failure(exc) from exc
        self.received_bytes += len(piece)
        self._report()

    def _report(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self.received_bytes, self._size_bytes)

    def _failure(self, exc: OSError) -> LocalFileError:
        return LocalFileError(f"{self._path} cannot be written: {exc.strerror or exc}")
