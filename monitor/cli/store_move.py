"""``store move``: a workspace into another shard of the database that a configuration names."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from monitor import logs
from monitor.app.store_routing import ShardsOfWorkspaces, joined_state
from monitor.bus.postgres import refuse_missing_extra
from monitor.bus.postgres_address import PostgresAddress
from monitor.cli.settings_files import load
from monitor.cli.tables import print_json
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret

_SHARD = re.compile("[a-z0-9][a-z0-9-]{0,62}")


def move(config: Path, workspace: str, to: str, *, as_json: bool) -> None:
    """Move a workspace into another shard, and print what has moved.

    Raises:
        ConfigurationError: the workspace or the shard cannot be.
        BusError: a daemon runs, or the database fails.
    """
    configuration = load(config)
    logs.configure(level="warning", secrets=configuration.secrets())
    storage = configuration.storage
    if storage.postgres is None:
        raise ConfigurationError("storage.url names a file, which has one shard")
    if _SHARD.fullmatch(to) is None:
        raise ConfigurationError("a shard has 1 to 63 of a-z, 0-9 and -, not - first")
    refuse_missing_extra()
    moved = asyncio.run(_moved(storage.postgres, storage.password, workspace, to))
    if as_json:
        print_json({"ok": True, "workspace": workspace, "to": to, **moved})
        return
    sys.stdout.write(
        f"ok: {workspace} is in shard {to}, with {moved['events']:,} events and "
        f"{moved['runs']:,} runs of shard {moved['from']}; set its key shard to {to!r} in every "
        "configuration\n"
    )


async def _moved(
    address: PostgresAddress, password: Secret | None, workspace: str, to: str
) -> dict[str, int | str]:
    from monitor.bus.transfer.postgres_side import open_store  # noqa: PLC0415 - needs the extra
    from monitor.bus.transfer.workspace_move import (  # noqa: PLC0415 - needs the extra
        WorkspaceMove,
    )

    connection = await open_store(address, password)
    try:
        moved = await WorkspaceMove(
            connection,
            workspace,
            to,
            make_routing=lambda shards, home: ShardsOfWorkspaces(shards, shards, home=home),
            join_states=joined_state,
        ).run()
    finally:
        connection.terminate()
    return {"from": moved.from_shard, "events": moved.events, "runs": moved.runs}
