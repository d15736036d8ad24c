"""The garbage collector of the daemon's process."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from monitor.cli.gc_tuning import exempt_what_lasts, search_often
from tests.clocks import ManualClock

_OBJECTS = 150_000
_SEARCHED_AT_ONCE = 50_000


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
    gc.freeze()  # as `tests/conftest.py` leaves it


def searches_of_all() -> list[int]:
    """Return where the number of objects will be that each search goes over that exempts them."""
    searched: list[int] = []

    def count(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] == 2:
            searched.append(sum(len(gc.get_objects(generation)) for generation in range(3)))

    gc.callbacks.append(count)
    return searched


@pytest.mark.usefixtures("collector")
def test_no_search_goes_over_all_that_is_held() -> None:
    """However much a daemon comes to hold, each search goes over the newest of it only."""
    searched = searches_of_all()
    held: list[list[object]] = [[] for _ in range(_OBJECTS)]

    assert len(held) == _OBJECTS
    assert searched
    assert max(searched) < _SEARCHED_AT_ONCE


@pytest.mark.usefixtures("collector")
async def test_objects_made_as_fast_as_they_end_are_searched_often() -> None:
    """A search finds little, also where Python sees no growth: as many objects end as are made."""
    clock = ManualClock()
    searching = asyncio.create_task(search_often(clock))
    held: list[list[object]] = [[] for _ in range(_OBJECTS)]
    await clock.advance(2)
    searched = searches_of_all()
    for place in range(_OBJECTS):
        held[place] = []
        if place % 1_000 == 0:
            await clock.advance(0.1)
    searching.cancel()

    assert max(searched) < _SEARCHED_AT_ONCE


@pytest.mark.usefixtures("collector")
async def test_nothing_is_searched_while_collection_is_switched_off() -> None:
    """Drawing a page switches collection off; a search then would halt every thread all the same.

    It goes on once collection is switched on again.
    """
    clock = ManualClock()
    searching = asyncio.create_task(search_often(clock, counted_every_seconds=1))
    await clock.advance(0.1)
    searched: list[int] = []
    gc.callbacks.append(lambda _, info: searched.append(info["generation"]))
    gc.disable()
    try:
        for _ in range(30):
            await clock.advance(0.1)
        while_off = list(searched)
    finally:
        gc.enable()
    for _ in range(4):
        await clock.advance(0.1)
    searching.cancel()

    assert while_off == []
    assert searched


@pytest.mark.usefixtures("collector")
async def test_exempt_objects_are_searched_when_they_have_doubled() -> None:
    """Garbage in circles that has become exempt is found, once as much again has become so."""
    clock = ManualClock()
    searching = asyncio.create_task(search_often(clock, counted_every_seconds=10))
    circle = Circle()
    found = weakref.ref(circle)
    gc.collect()  # exempts it
    del circle
    await clock.advance(11)
    is_kept = found() is not None
    held: list[list[object]] = [[] for _ in range(2 * gc.get_freeze_count())]
    gc.collect()
    await clock.advance(11)
    searching.cancel()

    assert is_kept
    assert found() is None
    assert held
