"""Reads of files and pipes that end in time and in size: a pipe may have no writer, or no end."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

_PIECE_BYTES = 16_384


def read_file(path: Path, *, limit_bytes: int, limit_seconds: float) -> bytes:
    """Return what the file or pipe holds; one byte more than the limit where it holds too much.

    Raises:
        OSError: it cannot be read.
        TimeoutError: it is a pipe that does not end within this time.
    """
    # Without waiting: to open a pipe would otherwise last until there is a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        ends_at = time.monotonic() + limit_seconds
        return read_until(descriptor, limit_bytes=limit_bytes, ends_at=ends_at)
    finally:
        os.close(descriptor)


def read_until(descriptor: int, *, limit_bytes: int, ends_at: float) -> bytes:
    """Return all until its end, or one byte more than the limit; ``ends_at`` is monotonic.

    Raises:
        OSError: it cannot be read.
        TimeoutError: there is no end by then.
    """
    # `select` takes no descriptor over 1,023, and a daemon may have many connections.
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    content = b""
    while len(content) <= limit_bytes:
        left_seconds = ends_at - time.monotonic()
        if left_seconds <= 0 or not poll.poll(left_seconds * 1000):
            raise TimeoutError("no end within the time")
        piece = os.read(descriptor, min(_PIECE_BYTES, limit_bytes + 1 - len(content)))
        if not piece:
            break
        content += piece
    return content
