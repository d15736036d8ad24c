"""Backends that must keep the bus contract. A second one is a second entry of `BACKENDS`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus
from monitor.bus.sqlite import SqliteBus
from tests.clocks import ManualClock

OpenBus = Callable[[], Awaitable[EventBus]]


async def open_sqlite(folder: Path, clock: ManualClock) -> EventBus:
    return await SqliteBus.open(folder / "state.db", clock=clock, registry=CollectorRegistry())


BACKENDS = {"sqlite": open_sqlite}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=BACKENDS)
async def open_bus(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[OpenBus]:
    """Open the test's store; after its `close` it can be opened again, as after a restart."""
    opened: list[EventBus] = []

    async def open_backend() -> EventBus:
        opened.append(await BACKENDS[request.param](tmp_path, clock))
        return opened[-1]

    yield open_backend
    for bus in opened:
        await bus.close()


@pytest.fixture
async def bus(open_bus: OpenBus) -> EventBus:
    return await open_bus()
