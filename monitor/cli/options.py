"""Options that several commands take, so that they read the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli import FILE_VARIABLE, completers
from monitor.cli.option_groups import OptionGroup
from monitor.cli.row_layout import OutputForm

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
OnlyWorkspace = Annotated[
    str | None,
    typer.Option(
        "--workspace", "-w", help="Only this workspace.", autocompletion=completers.workspaces
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions(OptionGroup):
    """How a command prints its rows."""

    output: Annotated[
        OutputForm,
        typer.Option(
            "--output",
            "-o",
            help="table: for people; wide: all columns, instants, nothing cut; json and csv: for "
            "programs.",
        ),
    ] = OutputForm.TABLE
    as_json: Annotated[bool, typer.Option("--json", help="Short for --output json.")] = False

    def __post_init__(self) -> None:
        if self.as_json and self.output in (OutputForm.WIDE, OutputForm.CSV):
            raise typer.BadParameter(f"--json and --output {self.output} are two forms; name one")

    @property
    def form(self) -> OutputForm:
        """The form that is meant."""
        return OutputForm.JSON if self.as_json else self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonOptions(OptionGroup):
    """Which daemon a command calls: that of a configuration, or the server at a URL."""

    ctx: typer.Context
    config: Annotated[
        Path,
        typer.Option(
            "--config",
            "-c",
            envvar=FILE_VARIABLE,
            metavar="FILE",
            help="Call the daemon of this configuration.",
        ),
    ] = CONFIG_FILE
    url: Annotated[
        str | None,
        typer.Option(
            envvar="DATAPREP_MONITOR_URL",
            metavar="URL",
            help="Call the daemon at this URL; no configuration is read.",
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="DATAPREP_MONITOR_TOKEN_FILE",
            metavar="FILE",
            help="File with the bearer token of the server.",
        ),
    ] = None
    username: Annotated[
        str | None,
        typer.Option(
            envvar="DATAPREP_MONITOR_USERNAME",
            metavar="NAME",
            help="User name, for a server with a password.",
        ),
    ] = None
    password_file: Annotated[
        Path | None,
        typer.Option(
            envvar="DATAPREP_MONITOR_PASSWORD_FILE",
            metavar="FILE",
            help="File with the password of that user.",
        ),
    ] = None
    ca_file: Annotated[
        Path | None,
        typer.Option(
            envvar="DATAPREP_MONITOR_CA_FILE",
            metavar="FILE",
            help="With --url: PEM file of authorities to trust instead of the system's.",
        ),
    ] = None

    def is_typed(self, name: str) -> bool:
        """True where an option was typed, not taken from the environment or a default."""
        source = self.ctx.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    def is_for_url(self, name: str) -> bool:
        """True where a credential goes to the URL: those of the environment belong to its own."""
        return self.is_typed(name) or not self.is_typed("url")

    @property
    def is_url(self) -> bool:
        """True where the URL says which daemon is meant; what is typed goes before variables."""
        return self.url is not None and (self.is_typed("url") or not self.is_typed("config"))


Limit = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="How many rows at most, 0 for all; default: 50."),
]
SHOWN = 50  # rows in a table where no limit is named


def shown_rows(limit: int | None, form: OutputForm) -> int:
    """Return how many rows of a whole list are printed, 0 for all: programs get all by default."""
    if limit is not None:
        return limit
    return SHOWN if form in (OutputForm.TABLE, OutputForm.WIDE) else 0
