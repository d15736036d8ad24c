"""Removes from the store what its retention no longer keeps."""

from __future__ import annotations

import structlog

from monitor.app.hosted.hosting import Hosting
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import ShardStore
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError

log = structlog.get_logger()


async def apply_retention(
    *, store: ShardStore, hosting: Hosting, clock: Clock, settings: StorageSettings
) -> None:
    """Apply retention until cancelled. A store that cannot be written is tried again."""
    while True:
        await clock.sleep(settings.prune_seconds)
        try:
            pruned = await store.prune(settings.retention, now=clock.now())
        except BusUnavailableError as exc:
            log.warning("retention waits for the store", reason=str(exc))
            continue
        for name, removed in pruned.items():
            if (shard := hosting.shards.get(name)) is not None:
                shard.observer.give_up(len(removed.callbacks))
            if removed.events or removed.runs:
                of_shard = {"shard": name} if name else {}
                log.info("retention applied", events=removed.events, runs=removed.runs, **of_shard)
