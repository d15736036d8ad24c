"""The file of a dump: compressed JSON lines, a header first and counts with a checksum last.

A dump is written beside its name, synced, and renamed: under its name it is always complete.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from monitor.bus.dump.dump_records import (
    FORMAT,
    SCHEMA,
    Counts,
    DumpHeader,
    DumpTrailer,
    ShardRow,
    StoreTable,
)
from monitor.model.errors import BusSchemaError, LocalFileError

_OWNER_ONLY = 0o600  # token pairs may be in it
_PIECE_BYTES = 256 * 1024
_LONGEST_LINE_BYTES = 256 * 1024 * 1024
_COMPRESSION = 6
_LINES_BETWEEN = 500  # calls of the progress
_HAS_BINARY = frozenset(StoreTable) - {StoreTable.CONSUMER}
_HINT = "nothing was stored; take another copy of the dump, or make a new one"
# Of gzip, of JSON, and of rows that are not what they should be.
_DAMAGE = (
    *(gzip.BadGzipFile, zlib.error, msgspec.MsgspecError),
    *(LookupError, TypeError, ValueError, RecursionError),
)
_encode = msgspec.json.Encoder().encode


class _AnyHeader(Struct):
    """What the header of every version has."""

    format: str
    schema: int
    version: str


_decode_any_header = msgspec.json.Decoder(_AnyHeader).decode
_decode_header = msgspec.json.Decoder(DumpHeader).decode
_decode_trailer = msgspec.json.Decoder(DumpTrailer).decode
_decode_row = msgspec.json.Decoder(tuple[StoreTable, str, list[Any]]).decode


class DumpWriter:
    """Writes one dump; used by `writing` only."""

    def __init__(self, file: BinaryIO, header: DumpHeader) -> None:
        self._gzip = gzip.GzipFile(
            filename="", mode="wb", compresslevel=_COMPRESSION, fileobj=file, mtime=0
        )
        self._digest = hashlib.sha256()
        self._counts: Counts = {shard: {} for shard in header.shards}
        self._pending = bytearray()
        self._write(header)

    def add(self, table: StoreTable, row: ShardRow) -> None:
        """Append a row."""
        values = list(row.row)
        if table in _HAS_BINARY:
            values[-1] = _text(values[-1])
        self._write((table, row.shard, values))
        counts = self._counts[row.shard]
        counts[table] = counts.get(table, 0) + 1

    def finish(self) -> DumpTrailer:
        """Write counts and checksum, and return them; at the end of the block of `writing`."""
        self._flush()
        trailer = DumpTrailer(counts=self._counts, sha256=self._digest.hexdigest())
        self._write(trailer)
        self._flush()
        self._gzip.close()
        return trailer

    def _write(self, line: object) -> None:
        self._pending += _encode(line) + b"\n"
        if len(self._pending) >= _PIECE_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._digest.update(self._pending)
        self._gzip.write(self._pending)
        self._pending.clear()


@contextmanager
def writing(path: Path, header: DumpHeader) -> Iterator[DumpWriter]:
    """Yield the writer of a dump that has its name once the block has ended.

    A block that fails leaves nothing; a process that is killed leaves ``<file>.unfinished``.

    Raises:
        LocalFileError: the file is there already, or cannot be written.
    """
    unfinished = path.with_name(f"{path.name}.unfinished")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        if path.exists():
            raise LocalFileError(f"{path} is there already; name another file, or move it away")
        with os.fdopen(os.open(unfinished, flags, _OWNER_ONLY), "wb") as file:
            try:
                yield DumpWriter(file, header)
                file.flush()
                os.fsync(file.fileno())
                unfinished.rename(path)
            except BaseException:
                unfinished.unlink()
                raise
        _sync_folder(path.parent)
    except FileExistsError as exc:
        raise LocalFileError(
            f"{unfinished} is of an export that runs, or was killed: wait for it, or remove it"
        ) from exc
    except OSError as exc:
        raise LocalFileError(
            f"{unfinished} cannot be written: {exc.strerror or exc}; make room or name another "
            "place, then export again"
        ) from exc


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class DumpReader:
    """Reads a dump, as often as it is asked to.

    Raises:
        LocalFileError: it cannot be read, or is no dump.
        BusSchemaError: a newer version wrote it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file_bytes = 0
        self.line = 0
        with self._errors(), path.open("rb") as file:
            self.file_bytes = os.fstat(file.fileno()).st_size
            self.header = self._read_header(self._lines(file))

    def records(
        self, on_bytes: Callable[[int], None] = lambda _: None
    ) -> Iterator[tuple[StoreTable, ShardRow]]:
        """Yield every row; ``on_bytes`` is called with the bytes of the file that are passed.

        Raises:
            LocalFileError: the file is cut off or damaged, which may show at its end only.
        """
        counts: Counts = {shard: {} for shard in self.header.shards}
        digest = hashlib.sha256()
        with self._errors(), self.path.open("rb") as file:
            lines = self._lines(file)
            digest.update(next(lines))
            for line in lines:
                if line.startswith(b"{"):
                    trailer = _decode_trailer(line)
                    break
                digest.update(line)
                table, shard, values = _decode_row(line)
                if table in _HAS_BINARY:
                    values[-1] = _binary(values[-1])
                counts[shard][table] = counts[shard].get(table, 0) + 1
                if self.line % _LINES_BETWEEN == 0:
                    on_bytes(file.tell())
                yield table, ShardRow(shard, tuple(values))
            else:
                raise EOFError
            if next(lines, None) is not None:
                raise ValueError("it goes on after its end")
            if (trailer.counts, trailer.sha256) != (counts, digest.hexdigest()):
                raise ValueError("its checksum is another one")
            on_bytes(file.tell())

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        self.line = 0
        with gzip.GzipFile(fileobj=file) as lines:
            while line := lines.readline(_LONGEST_LINE_BYTES):
                if not line.endswith(b"\n"):
                    raise EOFError
                self.line += 1
                yield line

    def _read_header(self, lines: Iterator[bytes]) -> DumpHeader:
        try:
            line = next(lines, b"")
            present = _decode_any_header(line)
        except (gzip.BadGzipFile, msgspec.MsgspecError, ValueError) as exc:
            raise LocalFileError(f"{self.path} is no dump that store export has written") from exc
        if present.format != FORMAT:
            raise LocalFileError(f"{self.path} is no dump that store export has written")
        if present.schema > SCHEMA:
            raise BusSchemaError(
                f"{self.path} was written by a newer version of the monitor, {present.version}: "
                f"its schema is {present.schema}, this version knows up to {SCHEMA}; install the "
                "newer version"
            )
        return _decode_header(line)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except EOFError as exc:
            raise LocalFileError(f"{self.path} is cut off after line {self.line}: {_HINT}") from exc
        # An error of gzip is one of the system too.
        except _DAMAGE as exc:
            raise LocalFileError(
                f"{self.path} is damaged after line {self.line} ({exc}): {_HINT}"
            ) from exc
        except OSError as exc:
            raise LocalFileError(f"{self.path} cannot be read: {exc.strerror}") from exc


def _text(value: bytes) -> str | dict[str, str]:
    """Return bytes as JSON has them: nearly all are JSON themselves."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _binary(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return base64.b64decode(value["base64"])
