"""Runs a command that prints a secret: without a shell, within a time limit and a size."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from monitor.cli.bounded_reads import read_until
from monitor.model.errors import ConfigurationError

COMMAND_SECONDS = 10.0


def output_of(
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    limit_bytes: int,
    limit_seconds: float = COMMAND_SECONDS,
) -> bytes:
    """Return what the command prints, started in ``folder``. What it says of errors is not read.

    Raises:
        ConfigurationError: it cannot be started, fails, prints too much or takes too long.
    """
    try:
        # A session of its own: what it started ends with it.
        process = subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
            arguments,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it holds a character that cannot be"
        raise ConfigurationError(
            f"the command cannot be started ({reason}); name a program that can"
        ) from exc
    with process:
        try:
            content = _read(process, limit_bytes=limit_bytes, limit_seconds=limit_seconds)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    return content


def _read(process: subprocess.Popen[bytes], *, limit_bytes: int, limit_seconds: float) -> bytes:
    if process.stdout is None:
        raise ValueError("the command is started with a pipe")
    ends_at = time.monotonic() + limit_seconds
    try:
        content = read_until(process.stdout.fileno(), limit_bytes=limit_bytes, ends_at=ends_at)
    except TimeoutError as exc:
        raise ConfigurationError(_too_slow(limit_seconds)) from exc
    if len(content) > limit_bytes:
        raise ConfigurationError("the command prints too much for a secret; let it print one")
    try:
        code = process.wait(timeout=max(0.1, ends_at - time.monotonic()))
    except subprocess.TimeoutExpired as exc:
        raise ConfigurationError(_too_slow(limit_seconds)) from exc
    if code != 0:
        raise ConfigurationError(
            f"the command failed with exit code {code}; type it as the daemon's user to see why"
        )
    return content


def _too_slow(limit_seconds: float) -> str:
    return f"the command did not end within {limit_seconds:g} s; let it be faster"
