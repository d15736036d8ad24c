"""Waits for the end of one run, and shows on a terminal how far it is."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from monitor.cli import time_options
from monitor.cli.admin import AdminClient, rows_of
from monitor.cli.daemon_address import DaemonAddress
from monitor.cli.row_layout import Form, cell
from monitor.model.errors import (
    ConfigurationError,
    DaemonBusyError,
    DaemonUnreachableError,
    MonitorError,
    NoSuchObjectError,
)
from monitor.model.runs import Status
from monitor.model.words import duration

_POLL_SECONDS = 1.0
_AGAIN_SECONDS, _AGAIN_CAP_SECONDS = 4.0, 60.0
_ENDS = frozenset(status.value for status in Status if status.is_terminal)

_TRACK = "/api/v1/track"

Run = dict[str, Any]


def wait_for_end(
    address: DaemonAddress, wanted: Mapping[str, str | None], *, limit_seconds: float
) -> bool:
    """Let the daemon follow a run, and print its end; True if it succeeded.

    A daemon that does not answer meanwhile, or is busy, is asked again: it may be restarting. A run
    that is not read yet is requested again, which shows whether the workspace denies it since.

    Raises:
        MonitorError: it has not ended in time, or the daemon refuses the request.
    """
    deadline = time.monotonic() + limit_seconds
    client = AdminClient(address)
    body = {name: value for name, value in wanted.items() if value is not None}
    client.post(_TRACK, body)
    workspace = wanted["workspace"] or _only_workspace(client)
    path = f"/api/v1/runs/{quote(workspace)}/{wanted['kind']}/{quote(str(wanted['id']))}"
    name = f"{wanted['kind']}/{wanted['id']}"
    try:
        run = _last_read(client, path, body, name=name, deadline=deadline)
    finally:
        _progress("")
    if run is None or run["status"] not in _ENDS:
        raise MonitorError(_too_late(name, run, limit_seconds))
    sys.stdout.write(f"{_end(name, run)}\n")
    return bool(run["status"] == Status.SUCCEEDED)


def _last_read(
    client: AdminClient, path: str, body: Mapping[str, str], *, name: str, deadline: float
) -> Run | None:
    """Return the run as it ended, or as it was when the time was up."""
    run: Run | None = None
    again_at, wait = time.monotonic() + _AGAIN_SECONDS, _AGAIN_SECONDS
    while True:
        run = _read(client, path, run)
        if run is None and time.monotonic() >= again_at:
            _request_again(client, body)
            wait = min(2 * wait, _AGAIN_CAP_SECONDS)
            again_at = time.monotonic() + wait
        left = deadline - time.monotonic()
        if left <= 0 or (run is not None and run["status"] in _ENDS):
            return run
        _progress(_so_far(name, run))
        time.sleep(min(_POLL_SECONDS, left))


def _request_again(client: AdminClient, body: Mapping[str, str]) -> None:
    with contextlib.suppress(DaemonBusyError, DaemonUnreachableError):
        client.post(_TRACK, body)


def _read(client: AdminClient, path: str, before: Run | None) -> Run | None:
    """Return the run as the daemon knows it, None while it has not read it yet."""
    try:
        run: Run = (client.get(path))["run"]
    except NoSuchObjectError:
        return None
    except (DaemonBusyError, DaemonUnreachableError) as exc:
        _progress(str(exc))
        return before
    return run


def _only_workspace(client: AdminClient) -> str:
    names = [row["workspace"] for row in rows_of(client.get("/api/v1/workspaces"))]
    if len(names) != 1:
        raise ConfigurationError(f"--workspace: name one of {', '.join(names)}")
    return str(names[0])


def _so_far(name: str, run: Run | None) -> str:
    if run is None:
        return f"{name}: not read from the workspace yet"
    words = [f"{name}: {run['status']}"]
    if run.get("percent_complete") is not None:
        words.append(f"{run['percent_complete']:.0f} %")
    if begun := run.get("started_at") or run.get("created_at"):
        seconds = (time_options.now() - datetime.fromisoformat(begun)).total_seconds()
        words.append(f"for {duration(max(0.0, seconds))}")
    return ", ".join(words)


def _end(name: str, run: Run) -> str:
    words = f"{name} {run['status']}"
    if run.get("duration_seconds") is not None:
        words += f" after {duration(run['duration_seconds'])}"
    reason = run.get("reason") or run.get("error")
    if reason:
        words += f": {cell(reason, Form.COPIED, is_wide=True, now=time_options.now())}"
    return words


def _too_late(name: str, run: Run | None, limit_seconds: float) -> str:
    state = "was not read from the workspace" if run is None else f"is {run['status']}"
    return (
        f"{name} {state} after {duration(limit_seconds)} of waiting; the daemon follows it "
        "further; wait longer with --timeout"
    )


def _progress(text: str) -> None:
    """Overwrite the line of progress, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
