"""Tunes the garbage collector: no search goes over all that a daemon holds.

A search halts every thread, a millisecond for each thousand objects. Modules and settings are a
hundred thousand of them, and each shard some two thousand: Python's own searches would halt a
daemon of a thousand shards for seconds. So the newest objects are searched often, and whatever has
outlived a few searches is exempt from later ones. What of it becomes garbage in a circle stays,
until so much is exempt that all of it is searched once.
"""

from __future__ import annotations

import gc
from typing import Any

import structlog

from monitor.model.clock import Clock

log = structlog.get_logger()

# Where more is made than ends: so many new objects are searched, after so many such searches also
# those that outlived one, and after so many of these all that are not exempt: some 20,000.
_THRESHOLDS = (5_000, 1, 1)
# Where as much ends as is made, which Python does not see: each generation in its turn.
_SECONDS = 0.1  # between two searches
_TURNS = (0, 1, 0, 2)
_COUNTED_EVERY_SECONDS = 3_600.0
_GROWTH = 2  # of what is exempt, until all of it is searched


def exempt_what_lasts() -> None:
    """Exempt all that is there, and from now on whatever outlives a search of all that is not."""
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks.append(_after_search)
    _search_all()


async def search_often(
    clock: Clock, *, counted_every_seconds: float = _COUNTED_EVERY_SECONDS
) -> None:
    """Search the newest objects, and all of them whenever what is exempt has doubled.

    Nothing is searched while collection is switched off.
    """
    exempt, counted_at = gc.get_freeze_count(), clock.monotonic()
    while True:
        for generation in _TURNS:
            await clock.sleep(_SECONDS)
            # Switched off while a metrics page is drawn, which makes tens of thousands of objects
            # without a circle; searching them would halt every thread.
            if gc.isenabled():
                gc.collect(generation)
        now = clock.monotonic()
        if now - counted_at < counted_every_seconds or not gc.isenabled():
            continue
        counted_at = now
        if gc.get_freeze_count() >= _GROWTH * exempt:
            _search_all()
            exempt = gc.get_freeze_count()
            log.info("garbage searched", objects=exempt, seconds=clock.monotonic() - now)


def _search_all() -> None:
    gc.unfreeze()
    gc.collect()
    # Of nothing by now: Python's next search of all that is not exempt waits for a quarter of what
    # the last one has found to last.
    gc.collect()


def _after_search(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == len(_THRESHOLDS) - 1:
        gc.freeze()
