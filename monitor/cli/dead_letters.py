"""``dead-letters``: events that an output refused for good; shows, resends and drops them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer

from monitor.cli import completers, daemon_client, lazy
from monitor.cli.options import SHOWN, DaemonOptions, OutputOptions
from monitor.cli.row_layout import Column, Form, OutputForm
from monitor.cli.tables import print_json, print_remark, print_rows
from monitor.model.outside import harmless

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
_PATH = "/api/v1/dead-letters"
_MOST = 1_000  # as many as a daemon lists
_WHOLE = 1_000_000  # characters
_RESEND_SECONDS = 3_600.0  # as much as ten thousand events may take a slow receiver

_Newest = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=_MOST,
        metavar="N",
        help=f"list: the newest so many, at most {_MOST:,}; default: {SHOWN}.",
    ),
]


def dead_letters(
    action: Annotated[
        str,
        typer.Argument(
            metavar="[list|show|resend|drop]",
            help="What to do; default: list.",
            autocompletion=completers.letter_actions,
        ),
    ] = "list",
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[OUTPUT] [EVENT_ID]...",
            help="show: the id of an event; resend, drop: the output, and the ids of events.",
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
    limit: _Newest = None,
    takes_all: Annotated[
        bool, typer.Option("--all", help="resend, drop: all dead letters of the output.")
    ] = False,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """List, show, resend or drop events that an output refused for good.

    Lists the newest ones. ``show`` prints an event and why each output refused it. ``resend`` sends
    them to their output again, with the same ids, once the reason is gone: what the output accepts
    is no dead letter any more, what it refuses again stays. ``drop`` deletes them. ``replay`` sends
    all events since a time. Exits 1 where the output did not accept some.
    """
    given = words or []
    if action not in completers.letter_actions():
        raise typer.BadParameter(f"{action!r} is none of list, show, resend, drop")
    if action == "list":
        if given or takes_all:
            raise typer.BadParameter("list takes no further words, only --for OUTPUT and --limit N")
        _list(daemon, {"output": name, "limit": limit or SHOWN}, output.form)
        return
    if limit is not None:
        raise typer.BadParameter("--limit belongs to list")
    if action == "show":
        if len(given) != 1 or takes_all or name is not None:
            raise typer.BadParameter("show takes the id of one event: see list -o wide")
        _show(daemon, given[0], output.form)
        return
    if name is not None:
        raise typer.BadParameter(f"--for belongs to list; write {action} {name}")
    if not _process(daemon, action, _request(action, given, takes_all=takes_all), output.form):
        raise typer.Exit(1)


def _request(action: str, given: Sequence[str], *, takes_all: bool) -> dict[str, Any]:
    if not given or takes_all == bool(given[1:]):
        raise typer.BadParameter(
            f"name the output, and ids of events or --all: {action} mqtt --all"
        )
    return {"output": given[0], "event_ids": given[1:], "all": takes_all}


def _process(daemon: DaemonOptions, action: str, body: Mapping[str, Any], form: OutputForm) -> bool:
    """Let the daemon do it, and print what it did; False where the output did not accept some."""
    path = f"{_PATH}/{action}"
    answer = daemon_client.post(daemon, path, body, timeout_seconds=_RESEND_SECONDS)
    row = {**answer, "missing": ", ".join(answer["missing"])}
    print_rows([row], [Column(field, field, Form.COPIED) for field in row], form)
    return not answer["refused"] and answer["reason"] is None


def _list(daemon: DaemonOptions, query: daemon_client.Query, form: OutputForm) -> None:
    answer = daemon_client.get(daemon, _PATH, query)
    rows, total = lazy.admin.rows_of(answer), answer["total"]
    _print(rows, form, empty="no output has dead letters")
    if len(rows) < total:
        hint = f"; --limit {min(total, _MOST)} for more" if len(rows) < _MOST else ""
        print_remark(f"showing the newest {len(rows):,} of {total:,}{hint}")


def _show(daemon: DaemonOptions, event_id: str, form: OutputForm) -> None:
    answer = daemon_client.get(daemon, f"{_PATH}/{quote(event_id, safe='')}")
    if form is OutputForm.JSON:
        print_json(answer)
        return
    _print(lazy.admin.rows_of(answer), form)
    if form is not OutputForm.CSV:
        event = msgspec.json.format(msgspec.json.encode(answer["event"]), indent=2).decode()
        sys.stdout.write(f"\n{harmless(event, longest=_WHOLE, has_lines=True)}\n")


def _print(rows: daemon_client.Rows, form: OutputForm, *, empty: str = "") -> None:
    shown = [{**row, "run": _run(row)} for row in rows]
    print_rows(shown, _COLUMNS, form, raw=rows, fields=_FIELDS, empty=empty)


def _run(letter: Mapping[str, Any]) -> str | None:
    return f"{letter['run_kind']}/{letter['run_id']}" if letter.get("run_id") else None
