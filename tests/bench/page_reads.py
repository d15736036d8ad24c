"""Whether many pipelines slow down those who look: overview and JSON API, 10,000 beside 100.

Two daemons as they are installed, which differ in the number of pipelines alone; each pipeline has
the same number of ended runs. Each request has an address of its own, so that the overview is
rendered for it. Both sides are asked in turns, one request after the other, for the same.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
from msgspec import Struct

from tests.bench.daemons import REQUESTS_PER_MINUTE, RunningDaemon, knowing
from tests.bench.figures import Figure, percentile, ratios, table
from tests.bench.slowed import held_to

TITLE = "Overview and API with 10,000 pipelines"
_FIRST_ID = 1_000_000
_FIRST_NUMBER = 20  # of alerts that an overview may show: all of them, because there are none


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement. ``{}`` in a path is another number each time."""

    repetitions: int = 5
    requests_per_minute: float = REQUESTS_PER_MINUTE
    requests: int = 200
    few: int = 100
    many: int = 10_000
    runs_each: int = 3
    paths: tuple[tuple[str, str], ...] = (
        ("overview", "/?groups={}"),
        ("overview, searched", "/?q=flow&sort=name&groups={}"),
        ("API of pipelines", "/api/v1/pipelines?limit=50"),
        ("API of runs", "/api/v1/runs?limit=50"),
        ("API of the state", "/api/v1/status"),
    )
    share: float = 1.0  # of all cores, that each daemon may use


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the percentiles of each path with few and with many pipelines, and their ratios."""
    sizes = sizes or Sizes()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        sides = [
            await _side(sizes, stack, folder, pipelines) for pipelines in (sizes.few, sizes.many)
        ]
        for number in range(-1, sizes.repetitions):
            for _, path in sizes.paths:
                for side in sides:
                    await side.round(sizes, path, is_counted=number >= 0)
    return [figure for name, path in sizes.paths for figure in _figures(sizes, name, path, *sides)]


async def _side(sizes: Sizes, stack: AsyncExitStack, folder: Path, pipelines: int) -> _Side:
    daemon = await stack.enter_async_context(
        knowing(
            folder / f"{pipelines}",
            first_id=_FIRST_ID,
            runs=20,
            flows=pipelines,
            ended_runs=pipelines * sizes.runs_each,
            ended_flows=pipelines,
            requests_per_minute=sizes.requests_per_minute,
        )
    )
    stack.enter_context(held_to(sizes.share, daemon.process_id))
    session = await stack.enter_async_context(aiohttp.ClientSession())
    return _Side(daemon, session)


class _Side:
    """A daemon, and the percentiles of its answers by path, one for each repetition."""

    def __init__(self, daemon: RunningDaemon, session: aiohttp.ClientSession) -> None:
        self._url = f"http://127.0.0.1:{daemon.server_port}"
        self._session = session
        self._number = _FIRST_NUMBER
        self.p50: dict[str, list[float]] = {}
        self.p99: dict[str, list[float]] = {}

    async def round(self, sizes: Sizes, path: str, *, is_counted: bool) -> None:
        times = [await self._ask(path) for _ in range(sizes.requests)]
        if is_counted:  # the first repetition only warms up
            self.p50.setdefault(path, []).append(percentile(times, 0.5))
            self.p99.setdefault(path, []).append(percentile(times, 0.99))

    async def _ask(self, path: str) -> float:
        """Return how long an answer takes, in milliseconds."""
        self._number = _FIRST_NUMBER + (self._number - _FIRST_NUMBER + 1) % 400
        began = time.monotonic()
        async with self._session.get(self._url + path.format(self._number)) as answer:
            await answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{path} answered {answer.status}")
        return 1e3 * (time.monotonic() - began)


def _figures(sizes: Sizes, name: str, path: str, few: _Side, many: _Side) -> list[Figure]:
    p50 = Figure(name=f"{name}, {sizes.many:,}: p50", values=tuple(many.p50[path]), unit="ms")
    beside = Figure(name=f"{name}, {sizes.few}: p99", values=tuple(few.p99[path]), unit="ms")
    p99 = Figure(name=f"{name}, {sizes.many:,}: p99", values=tuple(many.p99[path]), unit="ms")
    return [p50, beside, p99, ratios(f"{name}: p99, many over few", p99, beside, target=2)]


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))
