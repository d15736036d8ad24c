"""What shards cost in which nothing happens: many in one daemon, beside one with a tenth of them.

Each shard is a workspace that answers every list at once with nothing in it. Measured is a stretch
after the start: memory of the process that each further shard takes, processor time, and the
queries that reach the database, counted by the server's own log.
"""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.app.daemon import Addresses, Daemon
from monitor.bus.settings import StorageSettings
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import WorkspaceSettings
from tests.bench.figures import Figure, table
from tests.postgres_server import PostgresServer

TITLE = "Shards in which nothing happens"
_START_SECONDS = 300.0
_QUERY = re.compile(r"^dataprep-monitor[^|\n]*\|LOG:  (?:execute [^:]*|statement): ", re.MULTILINE)
_PAGE_BYTES = 4096


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    few: int = 100
    many: int = 1_000
    quiet_seconds: float = 120.0  # after the start, so that first reads are over
    seconds: float = 60.0


class _Cost(Struct, frozen=True, kw_only=True):
    """Of one daemon."""

    start_seconds: float
    memory_bytes: int
    core_share: float
    queries_per_second: float


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the cost of many shards, and what each further one adds to few."""
    sizes = sizes or Sizes()
    logs.configure(level="error")
    async with _empty_workspace() as url:
        few = await _cost(sizes.few, url, sizes)
        gc.collect()
        many = await _cost(sizes.many, url, sizes)
    more = sizes.many - sizes.few
    return [
        Figure(
            name=f"queries, {sizes.many:,} shards",
            values=(many.queries_per_second,),
            unit="/s",
            target=5.0,
        ),
        Figure(
            name="memory of each further shard",
            values=(max(1.0, (many.memory_bytes - few.memory_bytes) / more / 1e3),),
            unit="kB",
        ),
        Figure(
            name=f"share of a core, {sizes.many:,} shards", values=(many.core_share,), unit="cores"
        ),
        Figure(name=f"start, {sizes.many:,} shards", values=(many.start_seconds,), unit="s"),
    ]


async def _cost(shards: int, workspace_url: str, sizes: Sizes) -> _Cost:
    options = {"log_statement": "all", "log_line_prefix": "%a|"}
    async with PostgresServer(options=options) as server:
        database = server.url(await server.create_database())
        daemon = Daemon(
            _configuration(shards, workspace_url, database),
            clock=SystemClock(),
            registry=CollectorRegistry(),
        )
        stop = asyncio.Event()
        started: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        running = asyncio.create_task(
            daemon.run(stop, on_started=started.set_result), name="daemon of the benchmark"
        )
        try:
            async with asyncio.timeout(_START_SECONDS):
                await asyncio.wait((running, started), return_when=asyncio.FIRST_COMPLETED)
            start_seconds = time.perf_counter() - began
            await asyncio.sleep(sizes.quiet_seconds)
            queries, busy, since = _queries(server), time.process_time(), time.perf_counter()
            await asyncio.sleep(sizes.seconds)
            lasted = time.perf_counter() - since
            return _Cost(
                start_seconds=start_seconds,
                memory_bytes=_resident_bytes(),
                core_share=(time.process_time() - busy) / lasted,
                queries_per_second=(_queries(server) - queries) / lasted,
            )
        finally:
            stop.set()
            await running


def _configuration(shards: int, workspace_url: str, database: str) -> Configuration:
    return Configuration(
        workspaces=tuple(
            WorkspaceConfiguration(
                workspace=WorkspaceSettings(
                    name=f"idle-{number}", url=workspace_url, token=Secret("t"), retries=1
                )
            )
            for number in range(shards)
        ),
        server=ServerSettings(listen="127.0.0.1:0"),
        storage=StorageSettings(url=database, daemon="bench"),
    )


def _queries(server: PostgresServer) -> int:
    return len(_QUERY.findall(server.log))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


@asynccontextmanager
async def _empty_workspace() -> AsyncIterator[str]:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.json_response({"data": [], "count": 0})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))
