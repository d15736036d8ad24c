"""A process that takes one command line after the other, so that many cost one start."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable

from msgspec import Struct

from monitor.cli.main import main

_LINE_BYTES = 16 * 1024 * 1024
_ANSWER_SECONDS = 30.0


class Said(Struct, frozen=True):
    """What one command line came to."""

    code: int
    out: bytes
    err: str


Say = Callable[[list[str]], Awaitable[Said]]


@contextlib.asynccontextmanager
async def talking() -> AsyncIterator[Say]:
    """Run the process; what it yields runs one command line in it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__), stdin=PIPE, stdout=PIPE, limit=_LINE_BYTES
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asked, answered = process.stdin, process.stdout

    async def say(arguments: list[str]) -> Said:
        asked.write(json.dumps(arguments).encode() + b"\n")
        async with asyncio.timeout(_ANSWER_SECONDS):
            told = json.loads(await answered.readline())
        return Said(told["code"], base64.b64decode(told["out"]), told["err"])

    try:
        yield say
    finally:
        asked.close()
        await process.wait()


def _listen() -> None:
    ours = sys.stdout
    for line in sys.stdin:
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(json.loads(line))
            out.flush()
        told = base64.b64encode(out.buffer.getvalue()).decode()
        ours.write(json.dumps({"code": code, "out": told, "err": err.getvalue()}) + "\n")
        ours.flush()


if __name__ == "__main__":
    _listen()
