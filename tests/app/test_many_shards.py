"""What a daemon asks of its database for each shard that it begins."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Daemon
from monitor.bus.postgres.store import PostgresStore
from monitor.bus.settings import StorageSettings
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.clock import Clock, SystemClock
from monitor.model.runs import RunKind
from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import WorkspaceSettings
from tests.app.eventually import eventually

_NAMES = ("orders", "sales", "stock")
_QUERIES_OF_A_SHARD = 12


class CountedStore:
    """Opens the store of a daemon, and counts the queries of its reading connections."""

    def __init__(self) -> None:
        self.queries: Counter[str] = Counter()

    async def open(
        self,
        settings: StorageSettings,
        *,
        clock: Clock,
        registry: CollectorRegistry,
        url: str | None,
    ) -> PostgresStore:
        store = await PostgresStore.open(
            settings, version="1", url=url, clock=clock, registry=registry
        )
        fetch = store._reader.fetch

        async def counted(statement: str, *values: Any) -> list[Any]:
            self.queries[statement] += 1
            return await fetch(statement, *values)

        store._reader.fetch = counted  # type: ignore[method-assign]  # what it does stays
        return store


@asynccontextmanager
async def empty_workspace() -> AsyncIterator[str]:
    """Yield the URL of a workspace that answers every list with nothing in it."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.json_response({"data": [], "count": 0})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def follow(workspace_url: str, database_url: str) -> CountedStore:
    """Run a daemon until it has polled every workspace, each a shard of its own."""
    counted = CountedStore()
    daemon = Daemon(
        Configuration(
            workspaces=tuple(
                WorkspaceConfiguration(
                    workspace=WorkspaceSettings(name=name, url=workspace_url, token=Secret("t"))
                )
                for name in _NAMES
            ),
            server=ServerSettings(listen="127.0.0.1:0"),
            storage=StorageSettings(url=database_url, daemon="north"),
        ),
        clock=SystemClock(),
        registry=CollectorRegistry(),
        open_store=counted.open,
    )
    stop, has_started = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(daemon.run(stop, on_started=lambda _: has_started.set()))
    await has_started.wait()
    await eventually(
        lambda: all((name, RunKind.JOB_GROUP) in daemon.view.complete() for name in _NAMES),
        why="a workspace was not polled",
    )
    stop.set()
    await running
    return counted


async def test_a_shard_that_begins_costs_few_queries(empty_database: str) -> None:
    """So that a thousand are taken over soon: what is small is read at once, not piece by piece."""
    async with empty_workspace() as url:
        counted = await follow(url, empty_database)

    of_shards = {query: count for query, count in counted.queries.items() if count >= len(_NAMES)}
    assert sum(of_shards.values()) <= _QUERIES_OF_A_SHARD * len(_NAMES), of_shards
