"""The garbage collector of the daemon's process."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from monitor.cli.garbage import exempt_what_lasts, search_seldom
from tests.clocks import ManualClock

_OBJECTS = 300_000
_SEARCHED_AT_ONCE = 100_000


class Circle:
    """Garbage that only a search finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[None]:
    """Give the collector its former settings back."""
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    exempt_what_lasts()
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks
    gc.unfreeze()


@pytest.mark.usefixtures("collector")
def test_no_search_goes_over_all_that_is_held() -> None:
    """However much a daemon comes to hold, each search goes over the newest of it only."""
    searched: list[int] = []

    def count(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] == 2:
            searched.append(sum(len(gc.get_objects(generation)) for generation in range(3)))

    gc.callbacks.append(count)
    held: list[list[object]] = [[] for _ in range(_OBJECTS)]

    assert len(held) == _OBJECTS
    assert searched
    assert max(searched) < _SEARCHED_AT_ONCE


@pytest.mark.usefixtures("collector")
async def test_what_is_exempt_is_searched_when_it_has_doubled() -> None:
    """Garbage in circles that has become exempt is found, once as much again has become so."""
    clock = ManualClock()
    searching = asyncio.create_task(search_seldom(clock))
    circle = Circle()
    found = weakref.ref(circle)
    gc.collect()  # exempts it
    del circle
    await clock.advance(3_600)
    is_kept = found() is not None
    held: list[list[object]] = [[] for _ in range(2 * gc.get_freeze_count())]
    gc.collect()
    await clock.advance(3_600)
    searching.cancel()

    assert is_kept
    assert found() is None
    assert held
