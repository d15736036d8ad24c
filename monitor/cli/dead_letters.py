"""``dead-letters``: events that an output refused for good."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from monitor.cli import completers, daemon_client
from monitor.cli.options import DaemonOptions, OutputOptions
from monitor.cli.row_layout import Column, Form
from monitor.cli.tables import print_remark, print_rows
from monitor.model.errors import ConfigurationError
from monitor.model.suggestions import did_you_mean

_COLUMNS = (
    Column("refused_at", "refused", Form.INSTANT),
    Column("output", "output", Form.COPIED),
    Column("event_type", "event"),
    Column("workspace", "workspace"),
    Column("run", "run", Form.COPIED),
    Column("event_id", "event id", Form.COPIED, is_wide=True),
    Column("reason", "reason", Form.TEXT),
)
_FIELDS = (
    "output", "refused_at", "reason", "event_type", "event_id", "position", "workspace",
    "run_kind", "run_id",
)  # fmt: skip


def dead_letters(
    *,
    name: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="OUTPUT",
            help="Only of this output.",
            autocompletion=completers.outputs,
        ),
    ] = None,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """List the newest events that an output refused for good.

    ``replay`` sends events to one output again, once the reason is gone.
    """
    outputs = daemon_client.list_rows(daemon, "/api/v1/monitor/outputs")
    names = [row["name"] for row in outputs]
    if name is not None and name not in names:
        hint = did_you_mean(name, names) or f"; there are {', '.join(names)}"
        raise ConfigurationError(f"--for: {name!r} is no output{hint}")
    chosen = [row for row in outputs if name in (None, row["name"])]
    rows = [_row(row["name"], letter) for row in chosen for letter in row["newest_dead_letters"]]
    print_rows(rows, _COLUMNS, output.form, fields=_FIELDS, empty="no output has dead letters")
    for row in chosen:
        shown, count = len(row["newest_dead_letters"]), row["dead_letters"]
        if shown < count:
            print_remark(f"{row['name']}: showing the newest {shown} of {count:,}")


def _row(output: str, letter: dict[str, Any]) -> dict[str, Any]:
    run = f"{letter['run_kind']}/{letter['run_id']}" if letter.get("run_id") else None
    return {**letter, "output": output, "run": run}
