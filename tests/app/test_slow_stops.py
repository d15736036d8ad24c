"""Ends of daemons whose database answers late: in order, within a bound, whatever is under way."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import msgspec
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Daemon
from monitor.app.store_opening import OpenStore, open_store
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import LeaseChange
from monitor.bus.sqlite.sole_shard import SqliteStore
from monitor.config import Configuration
from monitor.model.clock import Clock, SystemClock
from tests.app import fixture
from tests.app.eventually import pause
from tests.postgres_server import PostgresServer
from tests.servers import Relay

_LATE_SECONDS = 0.02
_STOPS = 20
_STOP_SECONDS = 10.0
_SILENT_STOP_SECONDS = 20.0


class Life:
    """One life of a daemon in this process."""

    def __init__(self, settings: Configuration, *, open_store: OpenStore = open_store) -> None:
        self._stop = asyncio.Event()
        running = Daemon(
            settings, clock=SystemClock(), registry=CollectorRegistry(), open_store=open_store
        )
        self._started = asyncio.Event()
        run = running.run(self._stop, on_started=lambda _: self._started.set())
        self._task = asyncio.create_task(run, name="a daemon of a test")

    async def until_started(self) -> None:
        await self._started.wait()

    async def end(self) -> float:
        """Ask it to stop; return how long that took, at most the longest bound of this file."""
        began = time.monotonic()
        self._stop.set()
        await asyncio.wait((self._task,), timeout=_SILENT_STOP_SECONDS)
        seconds = time.monotonic() - began
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return seconds


class LateGrant(SqliteStore):
    """A store whose claim of the shard was under way when the daemon began to drain."""

    _is_drained: asyncio.Event

    @classmethod
    async def opened(
        cls,
        settings: StorageSettings,
        *,
        clock: Clock,
        registry: CollectorRegistry,
        url: str | None,
    ) -> LateGrant:
        assert url is None
        store = await cls.open(settings, clock=clock, registry=registry)
        store._is_drained = asyncio.Event()
        return store

    async def await_first_shards(self) -> None:
        """It gets none at its start."""

    async def next_change(self) -> LeaseChange:
        await self._is_drained.wait()
        return await super().next_change()

    async def drain(self) -> None:
        self._is_drained.set()


async def test_a_shard_that_comes_while_the_daemon_drains_is_given_back(tmp_path: Path) -> None:
    """Its parts never start: no task would end them, and the daemon would wait for them."""
    settings = fixture.configuration(tmp_path, fixture.unreachable("acme"))
    life = Life(settings, open_store=LateGrant.opened)
    await life.until_started()
    assert await life.end() < _STOP_SECONDS


def url_through(relay: Relay, database: str) -> str:
    """Return the database's URL by way of the relay, without a question for TLS before all else."""
    parts = urlsplit(database)
    place = parts.netloc.replace(f":{parts.port}", f":{relay.port}")
    return urlunsplit(parts._replace(netloc=place, query="sslmode=disable"))


def settings_of(folder: Path, url: str, name: str = "north") -> Configuration:
    workspaces = [fixture.unreachable(f"team{number}") for number in range(6)]
    return msgspec.structs.replace(
        fixture.configuration(folder, *workspaces),
        storage=StorageSettings(url=url, daemon=name, lease_seconds=3, commit_timeout_seconds=2),
    )


async def test_daemons_that_are_given_shards_end_in_time(
    postgres: PostgresServer, empty_database: str, tmp_path: Path
) -> None:
    """Two daemons end and come back in turn, at any moment: also while shards change hands.

    Every answer of their database comes 20 ms late.
    """
    chance = random.Random(14)  # noqa: S311 - no secret
    took: list[float] = []
    async with Relay(postgres.port, late_seconds=_LATE_SECONDS) as relay:
        url = url_through(relay, empty_database)
        daemons = [settings_of(tmp_path, url, name) for name in ("north", "south")]
        lives = [Life(settings) for settings in daemons]
        for _ in range(_STOPS // 2):
            for number, settings in enumerate(daemons):
                await pause(chance.uniform(0, 1.0))
                took.append(await lives[number].end())
                lives[number] = Life(settings)
        took += [await life.end() for life in lives]
    assert max(took) < _STOP_SECONDS, took


async def test_a_daemon_whose_database_is_silent_ends_in_time(
    postgres: PostgresServer, empty_database: str, tmp_path: Path
) -> None:
    """Waits for an answer last no longer than a lease together, not one after the other."""
    async with Relay(postgres.port) as relay:
        life = Life(settings_of(tmp_path, url_through(relay, empty_database)))
        await life.until_started()
        relay.is_deaf = True
        assert await life.end() < _SILENT_STOP_SECONDS
