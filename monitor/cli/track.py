"""``track``: follow one run by its id."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from monitor.cli import daemon_client
from monitor.cli.options import CONFIG_FILE, ConfigFile, WorkspaceName
from monitor.model.outside import is_run_id
from monitor.model.runs import RunKind


def track(
    kind: Annotated[RunKind, typer.Argument(help="What kind of run it is.")],
    run_id: Annotated[str, typer.Argument(metavar="ID", help="Its id in the workspace.")],
    config: ConfigFile = CONFIG_FILE,
    *,
    workspace: WorkspaceName = None,
) -> None:
    """Follow one run by its id, also where the workspace lists none.

    While the workspace is unreachable, the daemon keeps the request, also over a restart.
    """
    if not is_run_id(run_id):
        raise typer.BadParameter(
            f"{run_id[:40]!r} is not the id of a run; name it as the workspace does, as 7827359",
            param_hint="ID",
        )
    body = {"kind": kind.value, "id": run_id, "workspace": workspace}
    answer = daemon_client.run_request(daemon_client.post(config, "/api/v1/track", body))
    sys.stdout.write(f"{answer['detail']}\n")
