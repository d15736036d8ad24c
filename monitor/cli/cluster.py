"""``cluster``: the daemons that share the store, and who holds which shard."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from monitor.cli import daemon_client, lazy
from monitor.cli.options import DaemonOptions, OutputOptions
from monitor.cli.row_layout import Column, Form, OutputForm
from monitor.cli.tables import print_csv, print_json, print_remark, print_rows

_DAEMONS = (
    Column("state", "state", Form.STATE),
    Column("id", "daemon", Form.COPIED),
    Column("shards", "shards", Form.COUNT),
    Column("last_heartbeat_at", "heartbeat", Form.INSTANT),
    Column("started_at", "started", Form.INSTANT),
    Column("version", "version", gives_way=True),
    Column("host", "host", gives_way=True),
    Column("process_id", "process", is_wide=True),
    Column("url", "page", Form.COPIED, is_wide=True),
)
_SHARDS = (
    Column("state", "state", Form.STATE),
    Column("name", "shard", Form.COPIED),
    Column("workspaces", "workspaces"),
    Column("holder", "holder", Form.COPIED),
    Column("held_since", "since", Form.INSTANT),
    Column("last_change", "how", gives_way=True),
    Column("taken_over_at", "last takeover", Form.INSTANT, gives_way=True),
    Column("backlog", "lag", Form.COUNT),
    Column("inbox", "inbox", Form.COUNT),
    Column("epoch", "epoch", is_wide=True),
    Column("newest_position", "newest position", is_wide=True),
)
_FIELDS = (
    "name", "workspaces", "holder", "held_since", "last_change", "taken_over_at", "epoch",
    "newest_position", "backlog", "inbox",
)  # fmt: skip
_CODES = {"critical": 1, "unknown": 3}  # exit codes, as `status` has them


def cluster(
    *,
    holder: Annotated[
        str | None, typer.Option("--holder", help="Only the shards of this daemon.")
    ] = None,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """List the daemons that share the store, and who holds which shard.

    Shards without a holder come first. Exits 1 where there are any, 3 while the store does not
    answer: then it is what the store said last. CSV has the shards only.
    """
    query = {"holder": holder, "limit": "100000"}
    status = daemon_client.get(daemon, "/api/v1/cluster", query)
    if not isinstance(status, dict) or "shards" not in status:
        raise lazy.admin.stranger()
    _print(status, output.form)
    if code := _CODES.get(status["level"], 0):
        raise typer.Exit(code)


def _print(status: dict[str, Any], form: OutputForm) -> None:
    if form is OutputForm.JSON:
        print_json(status)
        return
    if form is OutputForm.CSV:
        print_csv(status["shards"], _FIELDS)
        return
    print_remark(f"{status['sentence']}.")
    if not status["is_shared"]:
        return
    alive = {of["id"] for of in status["daemons"] if of["is_alive"]}
    unknown = "unknown" if status["level"] == "unknown" else None
    daemons = [
        {**of, "state": unknown or ("alive" if of["is_alive"] else "gone")}
        for of in status["daemons"]
    ]
    shards = [
        {**shard, "state": unknown or ("held" if shard["holder"] in alive else "not held")}
        for shard in status["shards"]
    ]
    print_rows(daemons, _DAEMONS, form, empty="no daemon is known")
    typer.echo()
    print_rows(shards, _SHARDS, form, empty="no shard is known")
