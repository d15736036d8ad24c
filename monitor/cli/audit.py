"""``audit``: who changed what, from where, and with which result."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from monitor.cli import daemon_client, time_options
from monitor.cli.options import SHOWN, DaemonOptions, OutputOptions
from monitor.cli.row_layout import Column, Form, OutputForm
from monitor.cli.tables import print_cut, print_rows

_COLUMNS = (
    Column("at", "when", Form.INSTANT),
    Column("person", "who"),
    Column("entry", "entry", Form.COPIED, is_wide=True),
    Column("source", "from", Form.COPIED),
    Column("what", "what", Form.COPIED),
    Column("result", "result", Form.STATE),
    Column("daemon", "daemon", Form.COPIED, is_wide=True),
    Column("id", "id", Form.COPIED, is_wide=True),
    Column("reason", "reason", Form.TEXT, is_wide=True),
    Column("before", "before", Form.TEXT, is_wide=True),
    Column("after", "after", Form.TEXT, is_wide=True),
    Column("request", "asked", Form.TEXT),
)
_FIELDS = (
    "id", "at", "person", "source", "what", "result", "reason", "daemon", "request", "before",
    "after",
)  # fmt: skip
_PAGE = 500  # the most lines of one answer
_VALUES = ("request", "before", "after")


def audit(
    *,
    since: Annotated[
        str | None, typer.Option(help="Only what was written since then: 2h, 7d or ISO 8601.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only what was written before, in the same forms.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="How many at most, 0 for all; default: 50, with --since all."
        ),
    ] = None,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """Export who changed what: silences, reloads and all other writes.

    The newest first. The result unknown means that the daemon, or its store, ended before it was
    stored. Needs the role admin.
    """
    begin = None if since is None else time_options.since(since)
    most = (SHOWN if since is None else 0) if limit is None else limit
    end = None if until is None else time_options.until(until)
    query = {
        "since": None if begin is None else begin.isoformat(),
        "until": None if end is None else end.isoformat(),
    }
    found = daemon_client.list_first(daemon, "/api/v1/audit", query, limit=most, page=_PAGE)
    shown = [_shown(row) for row in found.rows]
    raw = found.rows if output.form is OutputForm.JSON else shown
    print_rows(shown, _COLUMNS, output.form, raw=raw, fields=_FIELDS, empty="nothing was changed")
    if found.has_more:
        print_cut(len(shown), of=found.total)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a line with its values as one text each."""
    values = {name: row[name] for name in _VALUES if row[name] is not None}
    return {**row, **{name: msgspec.json.encode(value).decode() for name, value in values.items()}}
