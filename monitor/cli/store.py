"""``store``: what is done with the store itself."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import completers, lazy
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile

_URLS = 2


def store(
    action: Annotated[
        str,
        typer.Argument(
            metavar="check|migrate|move",
            help="What to do.",
            autocompletion=completers.store_actions,
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FROM TO]|[WORKSPACE]",
            help="migrate: the URLs of two stores, sqlite:///FILE or postgresql://...; move: the "
            "workspace.",
        ),
    ] = None,
    *,
    to: Annotated[str | None, typer.Option(help="move: the shard to move it to.")] = None,
    config: ConfigFile = CONFIG_FILE,
    as_json: AsJson = False,
) -> None:
    """Check the store, migrate it to another one, or move a workspace.

    check reads all of a file: pages, log and rows. A daemon may go on beside it; its write-ahead
    log grows meanwhile.

    migrate copies everything into an empty store, reads it again, and compares counts and
    checksums; the first store stays as it is. It is refused while a daemon runs on either. Repeat
    it after an interruption: it continues. From a file into a database, each workspace goes into
    its shard, which the configuration names: events keep their order and ids and get new positions,
    consumers go on behind what they have read. Into a file, the logs of all shards become one, in
    the order of recording; metrics and alerts must have read all events before, as after a clean
    stop; outputs may repeat events, under their ids.

    move takes a workspace into another shard of the database while no daemon runs. Change its key
    `shard` in every configuration before the next start.
    """
    given = words or []
    if (to is None) == (action == "move"):
        raise typer.BadParameter("--to SHARD belongs to move, which needs it")
    if action == "check" and not given:
        lazy.store_examination.check(config, as_json=as_json)
    elif action == "migrate" and len(given) == _URLS:
        lazy.store_migration.migrate(config, given, as_json=as_json)
    elif action == "move" and len(given) == 1 and to is not None:
        lazy.store_move.move(config, given[0], to, as_json=as_json)
    elif action not in completers.store_actions():
        raise typer.BadParameter(f"{action!r} is none of check, migrate, move")
    else:
        raise typer.BadParameter("write: check, or migrate FROM TO, or move WORKSPACE --to SHARD")
