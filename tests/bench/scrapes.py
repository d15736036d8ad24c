"""Whether scrapes disturb callbacks: 200 a second, with and without a scrape each second.

One daemon, as it is installed, with a metrics page of 10,000 series; its runs are known. Each
callback is timed until its answer, which comes when it is on disk. Repetitions without scrapes and
repetitions with one scrape a second, as Prometheus asks for it, take turns in one run, so that
whatever else goes on disturbs both.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tests.bench.daemons import SECRET, RunningDaemon, knowing
from tests.bench.figures import Figure, ratios, table
from tests.bench.load import Order
from tests.bench.processes import send_callbacks

TITLE = "Callbacks while the metrics are scraped"
_FIRST_ID = 1_000_000
_EVERY_SECONDS = 1.0
_HEADERS = {"Accept": "application/openmetrics-text; version=1.0.0"}
_SERIES_OF_A_FLOW = 45  # about; how many there really were is part of the table


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 5
    seconds: float = 4.0
    per_second: float = 200.0
    series: int = 10_000


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the p99 of the answers with and without scrapes, and their ratio."""
    sizes = sizes or Sizes()
    each = int(sizes.seconds * sizes.per_second)
    flows = max(1, sizes.series // _SERIES_OF_A_FLOW)
    warm_up = max(each, 2 * flows)
    runs = warm_up + 2 * sizes.repetitions * each
    quiet: list[float] = []
    scraped: list[float] = []
    pages: list[float] = []
    with TemporaryDirectory() as folder:
        async with knowing(
            Path(folder) / "daemon", first_id=_FIRST_ID, runs=runs, flows=flows
        ) as daemon:
            # Ends in every flow, so that the page has all its series before anything is timed.
            await _answers_p99(daemon, sizes, _FIRST_ID, seconds=warm_up / sizes.per_second)
            first_id = _FIRST_ID + warm_up
            for number in range(2 * sizes.repetitions):
                scraper = asyncio.create_task(_scrape(daemon, pages)) if number % 2 else None
                p99 = await _answers_p99(daemon, sizes, first_id, seconds=sizes.seconds)
                (scraped if scraper is not None else quiet).append(p99)
                if scraper is not None:
                    scraper.cancel()
                    await asyncio.gather(scraper, return_exceptions=True)
                first_id += each
            series = sum(not line.startswith("#") for line in (await daemon.page()).splitlines())
    return _figures(quiet, scraped, pages, series)


async def _answers_p99(
    daemon: RunningDaemon, sizes: Sizes, first_id: int, *, seconds: float
) -> float:
    order = Order(
        port=daemon.callbacks_port,
        first_id=first_id,
        seconds=seconds,
        per_second=sizes.per_second,
        secret=SECRET,
    )
    return (await send_callbacks(order)).answer_p99


async def _scrape(daemon: RunningDaemon, pages: list[float]) -> None:
    while True:
        began = time.monotonic()
        await daemon.page(_HEADERS)
        seconds = time.monotonic() - began
        pages.append(1e3 * seconds)
        await asyncio.sleep(max(0.0, _EVERY_SECONDS - seconds))


def _figures(
    quiet: list[float], scraped: list[float], pages: list[float], series: int
) -> list[Figure]:
    without = Figure(name="answer p99 without scrapes", values=tuple(quiet), unit="ms")
    beside = Figure(name="answer p99 with scrapes", values=tuple(scraped), unit="ms")
    return [
        without,
        beside,
        ratios("with over without", beside, without, target=2.0),
        Figure(name="one scrape", values=tuple(pages), unit="ms"),
        Figure(name="series on the page", values=(float(series),)),
    ]


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))
