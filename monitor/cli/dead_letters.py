"""``dead-letters``: events that an output refused for good; resends and drops them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from monitor.cli import completers, daemon_client
from monitor.cli.options import DaemonOptions, OutputOptions
from monitor.cli.row_layout import Column, Form, OutputForm
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


_RESEND_SECONDS = 3_600.0  # as much as ten thousand events may take a slow receiver


def dead_letters(
    action: Annotated[
        str,
        typer.Argument(
            metavar="[list|resend|drop]",
            help="What to do; default: list.",
            autocompletion=completers.letter_actions,
        ),
    ] = "list",
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[OUTPUT] [EVENT_ID]...",
            help="resend, drop: the output, and the ids of events.",
            autocompletion=completers.letter_words,
        ),
    ] = None,
    *,
    name: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="OUTPUT",
            help="list: only of this output.",
            autocompletion=completers.outputs,
        ),
    ] = None,
    takes_all: Annotated[
        bool, typer.Option("--all", help="resend, drop: all dead letters of the output.")
    ] = False,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """List events that an output refused for good, resend or drop them.

    Lists the newest ones. ``resend`` sends them to their output again, with the same ids, once
    the reason is gone: what the output accepts is no dead letter any more, what it refuses again
    stays. ``drop`` deletes them. ``replay`` sends all events since a time. Exits 1 where the
    output did not accept some.
    """
    given = words or []
    if action == "list":
        if given or takes_all:
            raise typer.BadParameter("list takes no further words, only --for OUTPUT")
        _list(daemon, name, output.form)
        return
    if action not in completers.letter_actions():
        raise typer.BadParameter(f"{action!r} is none of list, resend, drop")
    if name is not None:
        raise typer.BadParameter(f"--for belongs to list; write {action} {name}")
    if not given or takes_all == bool(given[1:]):
        raise typer.BadParameter(
            f"name the output, and ids of events or --all: {action} mqtt --all"
        )
    body = {"output": given[0], "event_ids": given[1:], "all": takes_all}
    if not _process(daemon, action, body, output.form):
        raise typer.Exit(1)


def _process(daemon: DaemonOptions, action: str, body: Mapping[str, Any], form: OutputForm) -> bool:
    """Let the daemon do it, and print what it did; False where the output did not accept some."""
    path = f"/api/v1/dead-letters/{action}"
    answer = daemon_client.post(daemon, path, body, timeout_seconds=_RESEND_SECONDS)
    row = {**answer, "missing": ", ".join(answer["missing"])}
    print_rows([row], [Column(field, field, Form.COPIED) for field in row], form)
    return not answer["refused"] and answer["reason"] is None


def _list(daemon: DaemonOptions, name: str | None, form: OutputForm) -> None:
    outputs = daemon_client.list_rows(daemon, "/api/v1/monitor/outputs")
    names = [row["name"] for row in outputs]
    if name is not None and name not in names:
        hint = did_you_mean(name, names) or f"; there are {', '.join(names)}"
        raise ConfigurationError(f"--for: {name!r} is no output{hint}")
    chosen = [row for row in outputs if name in (None, row["name"])]
    rows = [_row(row["name"], letter) for row in chosen for letter in row["newest_dead_letters"]]
    print_rows(rows, _COLUMNS, form, fields=_FIELDS, empty="no output has dead letters")
    for row in chosen:
        shown, count = len(row["newest_dead_letters"]), row["dead_letters"]
        if shown < count:
            print_remark(f"{row['name']}: showing the newest {shown} of {count:,}")


def _row(output: str, letter: dict[str, Any]) -> dict[str, Any]:
    run = f"{letter['run_kind']}/{letter['run_id']}" if letter.get("run_id") else None
    return {**letter, "output": output, "run": run}
