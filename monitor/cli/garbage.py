"""The garbage collector as a daemon needs it: no search of it goes over all that the daemon holds.

A search halts every thread, a millisecond for each thousand objects. Modules and settings are a
hundred thousand of them, and each shard some two thousand: Python's own searches would halt a
daemon of a thousand shards for seconds. So whatever has outlived a search over all that is new is
exempt from later ones. What of it becomes garbage in a circle stays, until so much is exempt that
all of it is searched once.
"""

from __future__ import annotations

import gc
from typing import Any

import structlog

from monitor.model.clock import Clock

log = structlog.get_logger()

# So many new objects are searched, after so many such searches also those that outlived one, and
# after so many of these all that are not exempt: some 45,000.
_THRESHOLDS = (5_000, 2, 2)
_COUNTED_EVERY_SECONDS = 3_600.0
_GROWTH = 2  # of what is exempt, until all of it is searched


def exempt_what_lasts() -> None:
    """Exempt all that is there, and from now on whatever outlives a search."""
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks.append(_after_search)
    _search_all()


async def search_seldom(clock: Clock) -> None:
    """Search all that is exempt whenever it has doubled; for ever."""
    exempt = gc.get_freeze_count()
    while True:
        await clock.sleep(_COUNTED_EVERY_SECONDS)
        if gc.get_freeze_count() < _GROWTH * exempt:
            continue
        began = clock.monotonic()
        _search_all()
        exempt = gc.get_freeze_count()
        log.info("garbage searched", objects=exempt, seconds=clock.monotonic() - began)


def _search_all() -> None:
    gc.unfreeze()
    gc.collect()
    # Of nothing by now: the next search over all that is new waits for a quarter of what this one
    # has found to last.
    gc.collect()


def _after_search(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == len(_THRESHOLDS) - 1:
        gc.freeze()
