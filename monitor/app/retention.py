"""Removes from the store what its retention no longer keeps."""

from __future__ import annotations

import structlog

from monitor.bus.contract import EventBus
from monitor.bus.settings import StorageSettings
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError
from monitor.tracking.observer import Observer

log = structlog.get_logger()


async def apply_retention(
    *, bus: EventBus, observer: Observer, clock: Clock, settings: StorageSettings
) -> None:
    """Apply retention until cancelled. A store that cannot be written is tried again."""
    while True:
        await clock.sleep(settings.prune_seconds)
        try:
            pruned = await bus.prune(settings.retention, now=clock.now())
        except BusUnavailableError as exc:
            log.warning("retention waits for the store", reason=str(exc))
            continue
        observer.give_up(len(pruned.callbacks))
        if pruned.events or pruned.runs:
            log.info("retention applied", events=pruned.events, runs=pruned.runs)
