"""``rerun`` and ``cancel``: run again what a run has run; cancel a run."""

from __future__ import annotations

import sys
import uuid
from typing import Annotated

import typer

from monitor.cli import daemon_client, lazy, time_options
from monitor.cli.options import DaemonOptions, WorkspaceName
from monitor.cli.track import RunIdArgument, RunKindArgument, require_id
from monitor.model.errors import DaemonUnreachableError

_SECONDS = 120.0  # a workspace may be asked again, with the same execution id


def rerun(
    kind: RunKindArgument,
    run_id: RunIdArgument,
    *,
    workspace: WorkspaceName = None,
    execution_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Of an earlier try: it starts no second run."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end; exit 0 only if it succeeded.")
    ] = False,
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="With --wait: how long at most, as 30m or 2h.")
    ] = "1h",
    daemon: DaemonOptions,
) -> None:
    """Run again what a run has run, and follow the new run.

    It runs with the parameters that its flow, recipe or plan has now. Needs [server] actions = true
    and the role operate. Safe to repeat with the same --execution-id.
    """
    require_id(kind, run_id)
    limit_seconds = time_options.seconds("--timeout", timeout)
    execution_id = execution_id or str(uuid.uuid4())
    body = {
        "kind": kind.value,
        "id": run_id,
        "workspace": workspace,
        "execution_id": execution_id,
    }
    try:
        answer = daemon_client.post(daemon, "/api/v1/actions/rerun", body, timeout_seconds=_SECONDS)
    except DaemonUnreachableError as exc:
        again = f"should it have started, --execution-id {execution_id} starts no second run"
        raise DaemonUnreachableError(f"{exc}; {again}") from exc
    sys.stdout.write(f"{answer['detail']}\n")
    new = answer.get("run")
    if wait and new is not None:
        address = daemon_client.address_of(daemon)
        if not lazy.run_wait.wait_for_end(address, new, limit_seconds=limit_seconds):
            raise typer.Exit(1)


def cancel(
    kind: RunKindArgument,
    run_id: RunIdArgument,
    *,
    workspace: WorkspaceName = None,
    daemon: DaemonOptions,
) -> None:
    """Cancel a run that has not ended.

    Of a flow run, the job groups that run now are canceled. Needs [server] actions = true and the
    role operate.
    """
    require_id(kind, run_id)
    body = {"kind": kind.value, "id": run_id, "workspace": workspace}
    answer = daemon_client.post(daemon, "/api/v1/actions/cancel", body, timeout_seconds=_SECONDS)
    sys.stdout.write(f"{answer['detail']}\n")
