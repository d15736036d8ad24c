"""``store``: what is done with the file of the store itself."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import completers, lazy
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile


def store(
    action: Annotated[
        str,
        typer.Argument(
            metavar="check", help="What to do.", autocompletion=completers.store_actions
        ),
    ],
    config: ConfigFile = CONFIG_FILE,
    *,
    as_json: AsJson = False,
) -> None:
    """Check the whole store: pages, log and rows.

    Reads only, so a daemon may go on beside it. It takes a second for some 100 MB, and the daemon's
    write-ahead log grows meanwhile.
    """
    if action not in completers.store_actions():
        raise typer.BadParameter(f"{action!r} is not check")
    lazy.store_examination.check(config, as_json=as_json)
