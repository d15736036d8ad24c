"""``access``: tokens of people and programs, and the list of who may reach the daemon."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import completers, lazy
from monitor.cli.options import CONFIG_FILE, ConfigFile, OutputOptions


def access(
    action: Annotated[
        str,
        typer.Argument(
            metavar="add|list", help="What to do.", autocompletion=completers.access_actions
        ),
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="add: of the person or program.")
    ] = None,
    *,
    role: Annotated[
        str | None,
        typer.Option(metavar="metrics|read|operate|admin", help="add: what the holder may do."),
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option(metavar="TIME", help="add: as 90d; without it, never.")
    ] = None,
    workspace: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="add: what it sees; may be repeated. Default: all."),
    ] = None,
    output: OutputOptions,
    config: ConfigFile = CONFIG_FILE,
) -> None:
    """Make a token for a user or program, or list who may come in.

    add prints a new token, which nothing keeps, and the entry [[access]] with its hash for the
    configuration; it changes no file. list reads the configuration. Roles: metrics may scrape; read
    may see everything; operate may also silence, acknowledge and track; admin may do all.
    """
    if action not in completers.access_actions():
        raise typer.BadParameter(f"{action!r} is none of add, list")
    if (action == "add") != (name is not None and role is not None):
        raise typer.BadParameter("write: list, or add NAME --role ROLE")
    if action == "list":
        for option, value in (("--expires-in", expires_in), ("--workspace", workspace)):
            if value is not None:
                raise typer.BadParameter(f"{option} belongs to add")
        lazy.access_entries.list_entries(config, form=output.form)
    else:
        lazy.access_entries.add_entry(
            name or "",
            role=role or "",
            globs=workspace or (),
            expires_in=expires_in,
            form=output.form,
        )
