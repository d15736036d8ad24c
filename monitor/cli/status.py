"""``status``: the state of everything in one sentence, and as an exit code."""

from __future__ import annotations

import sys
from typing import Any

import typer

from monitor.cli import daemon_client, lazy, lazy_terminal, time_options
from monitor.cli.options import DaemonOptions, OutputOptions
from monitor.cli.row_layout import Form, OutputForm, cell
from monitor.cli.tables import print_csv, print_json
from monitor.model.errors import ConfigurationError, MonitorError

_NEEDS_PEOPLE, _UNKNOWN = 1, 3  # exit codes; 2 is wrong usage
_CODES = {"ok": 0, "warning": _NEEDS_PEOPLE, "critical": _NEEDS_PEOPLE}
_FIELDS = (
    "level", "sentence", "failing", "missed_starts", "running", "healthy", "unknown",
    "confirmed_at",
)  # fmt: skip


def status(
    *,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """Print the state of everything in one sentence; exit by it.

    Exits 0 when all is well, 1 when something needs people (the sentence says what), 3 when the
    state is unknown: the daemon does not answer, sees no workspace, or shares a store that does not
    answer (so what failed may be over). 2 is wrong usage, as ever.
    """
    form = output.form
    try:
        state = daemon_client.get(daemon, "/api/v1/status")
        if not isinstance(state, dict) or "level" not in state:
            raise lazy.admin.stranger()
    except ConfigurationError:
        raise
    except MonitorError as exc:
        sys.stderr.write(f"error: {exc}\n")
        raise typer.Exit(_UNKNOWN) from exc
    _print(state, form)
    raise typer.Exit(_CODES.get(state["level"], _UNKNOWN))


def _print(state: dict[str, Any], form: OutputForm) -> None:
    if form is OutputForm.JSON:
        print_json(state)
        return
    if form is OutputForm.CSV:
        print_csv([state], _FIELDS)
        return
    now, is_wide = time_options.now(), form is OutputForm.WIDE
    line = cell(state["sentence"], Form.COPIED, is_wide=is_wide, now=now)
    if state.get("confirmed_at") and "confirmed" not in line:
        confirmed = cell(state["confirmed_at"], Form.INSTANT, is_wide=is_wide, now=now)
        line = f"{line}; confirmed {confirmed}"
    if sys.stdout.isatty():
        lazy_terminal.terminal.print_state(str(state["level"]), line)
    else:
        sys.stdout.write(f"{line}\n")
