"""A daemon with many shards in which nothing happens, as a process.

``python -m tests.bench.idle_daemon SHARDS WORKSPACE_URL DATABASE_URL`` follows so many workspaces,
each a shard of its own, prints the port of its server once all are begun, and goes on until ended.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial

from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.app.daemon import Addresses, Daemon
from monitor.bus.settings import StorageSettings
from monitor.cli.gc_tuning import exempt_what_lasts, search_often
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.listening.file_descriptors import raise_descriptor_limit
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import WorkspaceSettings


async def main(shards: str, workspace_url: str, database_url: str) -> None:
    """Follow the workspaces until cancelled."""
    logs.configure(level="error")
    raise_descriptor_limit()
    exempt_what_lasts()
    configuration = Configuration(
        workspaces=tuple(
            WorkspaceConfiguration(
                workspace=WorkspaceSettings(
                    name=f"idle-{number}", url=workspace_url, token=Secret("t"), retries=1
                )
            )
            for number in range(int(shards))
        ),
        server=ServerSettings(listen="127.0.0.1:0"),
        storage=StorageSettings(url=database_url, daemon="bench"),
    )
    clock = SystemClock()
    daemon = Daemon(configuration, clock=clock, registry=CollectorRegistry())
    await daemon.run(
        asyncio.Event(), on_started=_print_port, beside={"garbage": partial(search_often, clock)}
    )


def _print_port(addresses: Addresses) -> None:
    sys.stdout.write(f"{addresses.server_port}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
