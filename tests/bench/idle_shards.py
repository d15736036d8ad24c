"""What shards cost in which nothing happens: a few, some and a thousand in one daemon.

Each shard is a workspace that answers every list at once with nothing in it. The daemon is a
process of its own, and the one with the most is killed and started again: then it takes shards
that are stored. Counted by the server's own log are the queries of that start, and of each daemon
those of a quiet stretch in which the metrics are scraped as Prometheus does. The lag of the loop is
the daemon's own metric.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from msgspec import Struct

from tests.bench.figures import Figure, table
from tests.bench.processes import processor_seconds, resident_bytes, serving
from tests.postgres_server import PostgresServer

TITLE = "Shards in which nothing happens"
_QUERY = re.compile(r"^dataprep-monitor[^|\n]*\|LOG:  (?:execute [^:]*|statement): ", re.MULTILINE)
_LAG = re.compile(
    r'^dataprep_monitor_event_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE
)


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    shards: tuple[int, ...] = (60, 300, 1_000)
    quiet_seconds: float = 120.0  # after the start, so that first reads are over
    seconds: float = 60.0
    scrape_seconds: float = 15.0


class _Cost(Struct, frozen=True, kw_only=True):
    """Of one daemon."""

    start_seconds: float
    start_queries: int
    memory_bytes: int
    core_share: float
    queries_per_second: float
    lag_seconds: float  # no look at the loop came later than this bound of the histogram


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the cost of each number of shards, and what each further shard takes."""
    sizes = sizes or Sizes()
    async with _empty_workspace() as url:
        costs = {shards: await _cost(shards, url, sizes) for shards in sizes.shards}
    many, most = max(costs.items())
    return [
        *[
            Figure(
                name=f"queries, {shards:,} shards",
                values=(cost.queries_per_second,),
                unit="/s",
                target=5.0,
            )
            for shards, cost in costs.items()
        ],
        Figure(name="queries, each shard taken", values=(most.start_queries / many,), target=15.0),
        *[
            Figure(name=f"memory, {shards:,} shards", values=(cost.memory_bytes / 1e6,), unit="MB")
            for shards, cost in costs.items()
        ],
        Figure(name=f"share of a core, {many:,} shards", values=(most.core_share,), unit="cores"),
        Figure(name=f"start, {many:,} shards", values=(most.start_seconds,), unit="s"),
        Figure(
            name=f"longest lag of the loop, {many:,} shards", values=(most.lag_seconds,), unit="s"
        ),
    ]


async def _cost(shards: int, workspace_url: str, sizes: Sizes) -> _Cost:
    options = {"log_statement": "all", "log_line_prefix": "%a|"}
    async with PostgresServer(options=options) as server, aiohttp.ClientSession() as session:
        arguments = (str(shards), workspace_url, server.url(await server.create_database()))
        if shards == max(sizes.shards):
            async with serving("idle_daemon", *arguments):
                pass
        before_start, began = _queries(server), time.perf_counter()
        async with serving("idle_daemon", *arguments) as daemon:
            start_seconds = time.perf_counter() - began
            await asyncio.sleep(sizes.quiet_seconds)
            before = await _looks(session, daemon.port)
            queries, since = _queries(server), time.perf_counter()
            busy = processor_seconds(daemon.process_id)
            while (left := since + sizes.seconds - time.perf_counter()) > 0:
                await asyncio.sleep(min(left, sizes.scrape_seconds))
                looks = await _looks(session, daemon.port)
            lasted = time.perf_counter() - since
            return _Cost(
                start_seconds=start_seconds,
                start_queries=queries - before_start,
                memory_bytes=resident_bytes(daemon.process_id),
                core_share=(processor_seconds(daemon.process_id) - busy) / lasted,
                queries_per_second=(_queries(server) - queries) / lasted,
                lag_seconds=_longest(before, looks),
            )


async def _looks(session: aiohttp.ClientSession, port: int) -> dict[float, float]:
    """Return how many looks at the loop came at most so late, by the bounds of the histogram."""
    async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        answer.raise_for_status()
        return {float(bound): float(count) for bound, count in _LAG.findall(await answer.text())}


def _longest(before: dict[float, float], after: dict[float, float]) -> float:
    """Return the least bound within which all looks between these two came."""
    counts = {bound: count - before[bound] for bound, count in sorted(after.items())}
    return next(bound for bound, count in counts.items() if count == max(counts.values()))


def _queries(server: PostgresServer) -> int:
    return len(_QUERY.findall(server.log))


@asynccontextmanager
async def _empty_workspace() -> AsyncIterator[str]:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.json_response({"data": [], "count": 0})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4_096)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))
