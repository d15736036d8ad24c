"""``doctor``: does the real set-up work, as far as this machine can see?"""

from __future__ import annotations

import typer

from monitor.cli import lazy
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile, WorkspaceName


def doctor(
    config: ConfigFile = CONFIG_FILE,
    *,
    workspace: WorkspaceName = None,
    as_json: AsJson = False,
) -> None:
    """Test the set-up against the real workspaces and brokers.

    Prints one line for each check: ok, warning or failed, the result, and what to do. Changes
    nothing, and may run beside the daemon. Exits 1 when a check failed.
    """
    if not lazy.doctor_report.report(config, workspace=workspace, as_json=as_json):
        raise typer.Exit(1)
