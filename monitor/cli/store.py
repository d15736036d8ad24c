"""``store``: operations on the store itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monitor.cli import completers, lazy
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile, OnlyWorkspace


def store(
    action: Annotated[
        str,
        typer.Argument(
            metavar="check|export|import",
            help="What to do.",
            autocompletion=completers.store_actions,
        ),
    ],
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="export, import: the dump.")
    ] = None,
    *,
    workspace: OnlyWorkspace = None,
    shard: Annotated[str | None, typer.Option(help="export: only this shard.")] = None,
    config: ConfigFile = CONFIG_FILE,
    as_json: AsJson = False,
) -> None:
    """Check the store, export it into a dump, or import one.

    check reads all of a file: pages, log and rows. A daemon may go on beside it; its write-ahead
    log grows meanwhile.

    export writes a dump of the store as it is at one time, with all events, runs, counters, alerts,
    silences and token pairs: keep it as secret as the store. Daemons may go on.

    import loads a dump into a store that is empty and that no daemon runs on, in one transaction;
    file and database take each other's dumps. Into a database, each workspace goes into the shard
    that the configuration names. A log that stays whole keeps its positions; where logs become one
    or are split, events keep their order and ids, and no position is lower than before. Metrics and
    alerts must have read all events of logs that become one, as after a clean stop.
    """
    if action not in completers.store_actions():
        raise typer.BadParameter(f"{action!r} is none of check, export, import")
    if (action == "check") != (file is None):
        raise typer.BadParameter("write: check, or export FILE, or import FILE")
    if (workspace or shard) and (action != "export" or (workspace and shard)):
        raise typer.BadParameter("--workspace or --shard, not both, belongs to export")
    if file is None:
        lazy.store_examination.check(config, as_json=as_json)
    elif action == "export":
        lazy.store_dump.export(config, file, workspace=workspace, shard=shard, as_json=as_json)
    else:
        lazy.store_dump.import_dump(config, file, as_json=as_json)
