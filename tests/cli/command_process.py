"""A process that takes one command line after the other, so that many cost one start."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from monitor.cli.main import main

_ANSWER_SECONDS = 60.0
_END_SECONDS = 10.0


class CommandResult(Struct, frozen=True):
    """What one command line came to."""

    code: int
    content: bytes
    err: str

    @property
    def out(self) -> str:
        return self.content.decode()


class CommandProcess:
    """The command as a process; each call runs one command line in it. Close it at the end."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    async def __call__(
        self,
        *arguments: str,
        config: Path | None,
        environment: Mapping[str, str] | None = None,
    ) -> CommandResult:
        words = arguments if config is None else (*arguments, "-c", str(config))
        line = {"words": words, "environment": environment or {}}
        async with asyncio.timeout(_ANSWER_SECONDS):
            printed = json.loads(await asyncio.to_thread(self._exchange, line))
        return CommandResult(printed["code"], base64.b64decode(printed["out"]), printed["err"])

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(_END_SECONDS)
        self._process.stdout.close()

    def _exchange(self, line: Mapping[str, object]) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


def _listen() -> None:
    ours, usual = sys.stdout, dict(os.environ)
    for line in sys.stdin:
        typed = json.loads(line)
        os.environ.update(typed["environment"])
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(typed["words"])
            out.flush()
        os.environ.clear()
        os.environ.update(usual)
        printed = base64.b64encode(out.buffer.getvalue()).decode()
        ours.write(json.dumps({"code": code, "out": printed, "err": err.getvalue()}) + "\n")
        ours.flush()


if __name__ == "__main__":
    _listen()
