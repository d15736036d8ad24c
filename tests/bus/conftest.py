"""Backends that must keep the bus contract: each test of it runs for all of `BACKENDS`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus
from monitor.bus.sqlite import SqliteBus
from tests.bus.postgres_backend import open_postgres
from tests.clocks import ManualClock

Backend = Callable[[Path, ManualClock], Coroutine[Any, Any, EventBus]]
OpenBus = Callable[[], Awaitable[EventBus]]


async def open_sqlite(folder: Path, clock: ManualClock) -> EventBus:
    return await SqliteBus.open(folder / "state.db", clock=clock, registry=CollectorRegistry())


BACKENDS = ("sqlite", "postgres")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Return what opens the store of a folder, which is made at first."""
    if request.param == "sqlite":
        return open_sqlite
    return partial(open_postgres, request.getfixturevalue("postgres"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def open_bus(backend: Backend, tmp_path: Path, clock: ManualClock) -> AsyncIterator[OpenBus]:
    """Open the test's store; after its `close` it can be opened again, as after a restart."""
    opened: list[EventBus] = []

    async def open_backend() -> EventBus:
        opened.append(await backend(tmp_path, clock))
        return opened[-1]

    yield open_backend
    for bus in opened:
        await bus.close()


@pytest.fixture
async def bus(open_bus: OpenBus) -> EventBus:
    return await open_bus()
