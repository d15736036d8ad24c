"""Replaces the configuration of a running daemon: all of it, or nothing.

All that can be refused comes first: new workspaces and outputs are built, loaded and get their
consumers, and unused consumers are dropped. A failure there is undone, and the
daemon goes on with exactly the workspaces and outputs of before. The swap itself needs no store, so
it cannot stop half-way. The consumer of an output that goes is dropped after it, because the
output stores its position as it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from monitor.app.hosted.hosting import Hosting
from monitor.app.hosted.shard_definitions import configuration_of, shard_definitions
from monitor.app.hosted.shard_reload import ShardPlan, ShardReload
from monitor.bus.shards import ShardStore
from monitor.config import Configuration, changes_needing_restart, files_of

log = structlog.get_logger()


class Reloading:
    """Owns the configuration in force. One reload at a time."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        store: ShardStore,
        hosting: Hosting,
        on_swap: Callable[[Configuration], None],
    ) -> None:
        """``on_swap`` is called as the new workspaces take over, and must not fail."""
        self._started_with = configuration  # what its keys that are read at start still say
        self._store = store
        self._hosting = hosting
        self._on_swap = on_swap
        self._files = _stamps(configuration)  # of the certificates that it names, as last read
        self._turn = asyncio.Lock()

    async def reload(self, configuration: Configuration) -> list[str]:
        """Put a configuration in force; return the keys whose change needs a restart.

        Raises:
            ConfigurationError: a file that it names cannot be used; nothing has changed.
            BusError: the store refused; nothing has changed, and the same reload may be repeated.
        """
        async with self._turn:
            await self._hosting.all_started()
            files = await asyncio.to_thread(_stamps, configuration)
            renewed = {path for path, stamp in files.items() if self._files.get(path) != stamp}
            plans = await self._prepare(configuration, renewed)
            self._on_swap(configuration)
            for reload, plan in plans:
                await reload.swap(plan)
            self._files = files
            waiting = changes_needing_restart(self._started_with, configuration)
            for reload, _ in plans:
                await reload.announce(configuration_of(reload.name, configuration))
            log.info("configuration reloaded", waiting_for_restart=waiting)
            return waiting

    async def _prepare(
        self, configuration: Configuration, renewed: set[str]
    ) -> list[tuple[ShardReload, ShardPlan]]:
        """Do all store work of all shards. A failure leaves the daemon as it was."""
        prepared: list[tuple[ShardReload, ShardPlan]] = []
        definitions = await asyncio.to_thread(shard_definitions, configuration)
        names = {definition.name for definition in definitions}
        try:
            for shard in self._hosting.shards.values():
                if shard.name not in names:
                    continue  # the store recalls it
                reload = ShardReload(shard)
                plan = reload.plan(configuration_of(shard.name, configuration), renewed)
                await reload.prepare(plan)
                prepared.append((reload, plan))
            await self._store.define(definitions)
        except BaseException:
            for reload, plan in reversed(prepared):
                await reload.undo(plan)
            raise
        return prepared


def _stamps(configuration: Configuration) -> dict[str, tuple[int, int, int] | None]:
    """Return for each file that is named what changes with its content; None where it is gone."""
    stamps: dict[str, tuple[int, int, int] | None] = {}
    for path in files_of(configuration):
        try:
            status = Path(path).stat()
        except OSError:
            stamps[path] = None
        else:
            stamps[path] = (status.st_ino, status.st_mtime_ns, status.st_size)
    return stamps
