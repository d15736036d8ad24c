"""Whether many pipelines disturb callbacks: 200 a second beside rounds and scrapes of 10,000.

Two daemons as they are installed, both with the runs that are called back known. One watches the 50
pipelines of these runs and is not scraped. The other watches 10,000, each with a run that ended,
so that what it does at intervals has all of them to go through; and its metrics are scraped each
second, as Prometheus asks for them. The callbacks are those of the same 50 pipelines. Each is timed
until its message is at the MQTT subscriber. Both take turns in one run.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tests.bench.daemons import REQUESTS_PER_MINUTE, SECRET, TOPICS, RunningDaemon, knowing
from tests.bench.figures import Figure, ratios, table
from tests.bench.load import Order
from tests.bench.processes import send_callbacks
from tests.bench.slowed import held_to
from tests.servers import Mosquitto

TITLE = "Callbacks beside rounds and scrapes of 10,000 pipelines"
_FIRST_ID = 1_000_000
_EVERY_SECONDS = 1.0
_HEADERS = {"Accept": "application/openmetrics-text; version=1.0.0"}


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 5
    requests_per_minute: float = REQUESTS_PER_MINUTE
    seconds: float = 2.0
    per_second: float = 200.0
    few: int = 50
    many: int = 10_000
    share: float = 1.0  # of all cores, that each daemon may use

    @property
    def callbacks(self) -> int:
        return int(self.seconds * self.per_second)


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return both percentiles with few and with many pipelines, and the ratio of the p99s."""
    sizes = sizes or Sizes()
    pages: list[float] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        few, many = [
            await _side(sizes, stack, folder, pipelines) for pipelines in (sizes.few, sizes.many)
        ]
        for number in range(-1, sizes.repetitions):
            first_id = _FIRST_ID + (number + 1) * sizes.callbacks
            for side in (few, many):
                await few.daemon.settle()
                await many.daemon.settle()
                scraping = _scraping(side.daemon, pages)
                async with scraping if side is many else contextlib.nullcontext():
                    await side.round(sizes, first_id, is_counted=number >= 0)
        series = sum(not line.startswith("#") for line in (await many.daemon.page()).splitlines())
    return _figures(sizes, few, many, pages, series)


async def _side(sizes: Sizes, stack: AsyncExitStack, folder: Path, pipelines: int) -> _Side:
    # A broker each: two daemons of one name would take the broker's session from each other.
    broker = await stack.enter_async_context(Mosquitto(folder, options=("max_queued_messages 0",)))
    daemon = await stack.enter_async_context(
        knowing(
            folder / f"{pipelines}",
            first_id=_FIRST_ID,
            runs=(sizes.repetitions + 1) * sizes.callbacks,
            flows=sizes.few,
            ended_runs=pipelines,
            ended_flows=pipelines,
            requests_per_minute=sizes.requests_per_minute,
            broker_port=broker.port,
            detail_wait_seconds=0.0,
        )
    )
    stack.enter_context(held_to(sizes.share, daemon.process_id))
    return _Side(daemon, broker.port)


class _Side:
    """A daemon and its percentiles, one for each repetition, in milliseconds."""

    def __init__(self, daemon: RunningDaemon, broker_port: int) -> None:
        self.daemon = daemon
        self._broker_port = broker_port
        self.p50: list[float] = []
        self.p99: list[float] = []

    async def round(self, sizes: Sizes, first_id: int, *, is_counted: bool) -> None:
        order = Order(
            port=self.daemon.callbacks_port,
            first_id=first_id,
            seconds=sizes.seconds,
            per_second=sizes.per_second,
            secret=SECRET,
            broker_port=self._broker_port,
            topics=TOPICS,
            flows=sizes.few,
        )
        report = await send_callbacks(order)
        if report.arrived != sizes.callbacks:
            raise RuntimeError(f"{report.arrived} of {sizes.callbacks} arrived")
        if is_counted:
            self.p50.append(report.arrival_p50)
            self.p99.append(report.arrival_p99)


@contextlib.asynccontextmanager
async def _scraping(daemon: RunningDaemon, pages: list[float]) -> AsyncIterator[None]:
    """Scrape each second, and add how long each scrape took, in milliseconds."""
    async with asyncio.TaskGroup() as group:
        scraper = group.create_task(_scrape(daemon, pages), name="scraper")
        yield
        scraper.cancel()


async def _scrape(daemon: RunningDaemon, pages: list[float]) -> None:
    while True:
        began = time.monotonic()
        await daemon.page(_HEADERS)
        seconds = time.monotonic() - began
        pages.append(1e3 * seconds)
        await asyncio.sleep(max(0.0, _EVERY_SECONDS - seconds))


def _figures(
    sizes: Sizes, few: _Side, many: _Side, pages: list[float], series: int
) -> list[Figure]:
    few_name, many_name = f"{sizes.few} pipelines", f"{sizes.many:,} pipelines, scraped"
    without = Figure(name=f"{few_name}: p99", values=tuple(few.p99), unit="ms")
    beside = Figure(name=f"{many_name}: p99", values=tuple(many.p99), unit="ms")
    return [
        Figure(name=f"{few_name}: p50", values=tuple(few.p50), unit="ms"),
        Figure(name=f"{many_name}: p50", values=tuple(many.p50), unit="ms"),
        without,
        beside,
        ratios("p99, many scraped over few", beside, without, target=1.5),
        Figure(name="one scrape", values=tuple(pages), unit="ms"),
        Figure(name="series on the page", values=(float(series),)),
    ]


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))
