"""``track``: follow one run by its id, and wait for its end; ``untrack``: no more of that."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from monitor.cli import daemon_client, lazy, time_options
from monitor.cli.options import DaemonOptions, WorkspaceName
from monitor.model.outside import is_id_of, why_no_id
from monitor.model.runs import RunKind

RunKindArgument = Annotated[RunKind, typer.Argument(help="What kind of run it is.")]
RunIdArgument = Annotated[str, typer.Argument(metavar="ID", help="Its id in the workspace.")]


def track(
    kind: RunKindArgument,
    run_id: RunIdArgument,
    *,
    workspace: WorkspaceName = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end; exit 0 only if it succeeded.")
    ] = False,
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="With --wait: how long at most, as 30m or 2h.")
    ] = "1h",
    daemon: DaemonOptions,
) -> None:
    """Follow one run by its id, also where the workspace lists none.

    While the workspace is unreachable, the daemon keeps the request, also over a restart. With
    --wait: exits 0 if the run succeeded, 1 if it ended otherwise or has not ended in time.
    """
    require_id(kind, run_id)
    limit_seconds = time_options.seconds("--timeout", timeout)
    body = {"kind": kind.value, "id": run_id, "workspace": workspace}
    if not wait:
        answer = daemon_client.post(daemon, "/api/v1/track", body)
        sys.stdout.write(f"{answer['detail']}\n")
        return
    address = daemon_client.address_of(daemon)
    if not lazy.run_wait.wait_for_end(address, body, limit_seconds=limit_seconds):
        raise typer.Exit(1)


def untrack(
    kind: RunKindArgument,
    run_id: RunIdArgument,
    *,
    workspace: WorkspaceName = None,
    daemon: DaemonOptions,
) -> None:
    """Drop a request to track a run that was not read yet.

    A run that was read is followed to its end.
    """
    require_id(kind, run_id)
    body = {"kind": kind.value, "id": run_id, "workspace": workspace}
    answer = daemon_client.post(daemon, "/api/v1/untrack", body)
    sys.stdout.write(f"{answer['detail']}\n")


def require_id(kind: RunKind, run_id: str) -> None:
    """Refuse what the workspace cannot have as the id of such a run."""
    if not is_id_of(kind, run_id):
        raise typer.BadParameter(why_no_id(kind, run_id), param_hint="ID")
