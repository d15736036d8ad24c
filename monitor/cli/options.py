"""Options that several commands take, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monitor.cli import FILE_VARIABLE, completers

CONFIG_FILE = Path("/etc/dataprep-monitor/monitor.toml")

ConfigFile = Annotated[
    Path,
    typer.Option("--config", "-c", envvar=FILE_VARIABLE, metavar="FILE", help="Configuration."),
]
WorkspaceName = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        "-w",
        help="Which workspace; not needed where only one is.",
        autocompletion=completers.workspaces,
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
