"""How a page is rendered: negotiated, off the loop, shared, and in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter, Metric
from prometheus_client.core import GaugeMetricFamily

from monitor.model.errors import OutputUnavailableError
from monitor.outputs.metrics.assembly import LoopLag
from monitor.outputs.metrics.collector import SnapshotCollector
from monitor.outputs.metrics.counting import CountingLimits
from monitor.outputs.metrics.exposition import Exposition, negotiate
from monitor.outputs.metrics.snapshot import MetricsSnapshot
from tests.clocks import ManualClock
from tests.outputs.metrics_examples import NOON

OPENMETRICS = "application/openmetrics-text"


class ExpositionScene:
    """An exposition whose snapshot is gathered when the test allows it."""

    def __init__(self, *, timeout_seconds: float = 5.0) -> None:
        self.registry = CollectorRegistry()
        self.snapshots = 0
        self.may_gather = asyncio.Event()
        self.may_gather.set()
        collector = SnapshotCollector(
            limits=CountingLimits(places=1, forget_seconds=1.0),
            stale_after_seconds=1.0,
            capabilities=(),
            version="0",
        )
        self.registry.register(collector)
        self.exposition = Exposition(
            registry=self.registry,
            collector=collector,
            gather=self.gather,
            timeout_seconds=timeout_seconds,
        )

    async def gather(self) -> MetricsSnapshot:
        self.snapshots += 1
        await self.may_gather.wait()
        return MetricsSnapshot(now=NOON)


@pytest.fixture
async def scene() -> AsyncIterator[ExpositionScene]:
    made = ExpositionScene()
    yield made
    made.may_gather.set()
    await made.exposition.close()


class ThreadSpy:
    """A collector that records its thread, and fails on request."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.is_collecting: list[bool] = []  # whether garbage was looked for meanwhile
        self.is_broken = False

    def collect(self) -> Iterator[Metric]:
        self.threads.append(threading.current_thread().name)
        self.is_collecting.append(gc.isenabled())
        if self.is_broken:
            raise ValueError("broken collector")
        yield GaugeMetricFamily("spy", "A spy.", value=1)


PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        ("text/html,application/xhtml+xml", "text/plain; version=0.0.4"),
        ("text/plain;version=0.0.4", "text/plain; version=0.0.4"),
        ("text/plain;version=1.0.0", "text/plain; version=1.0.0"),
        (PROMETHEUS_2, "application/openmetrics-text; version=1.0.0"),
        (OPENMETRICS, "application/openmetrics-text; version=1.0.0"),
        (f"{OPENMETRICS};version=2.0.0", "application/openmetrics-text; version=1.0.0"),
        (f"{OPENMETRICS};version=1.0.0.1", "application/openmetrics-text; version=1.0.0"),
        (f"{OPENMETRICS};version=banana", "text/plain; version=0.0.4"),
        ("text/plain;version=1.x", "text/plain; version=0.0.4"),
        (f"{OPENMETRICS};version={'9' * 5000}", "application/openmetrics-text; version=1.0.0"),
        (";;;,,=;", "text/plain; version=0.0.4"),
        (
            f"{OPENMETRICS};version=1.0.0;escaping=values",
            "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
        ),
        (
            "text/plain;version=1.0.0;escaping=dots",
            "text/plain; version=1.0.0; charset=utf-8; escaping=underscores",
        ),
    ],
)
async def test_every_accept_header_gets_a_page(
    scene: ExpositionScene, accept: str, expected: str
) -> None:
    """The content type is a supported one, and the page has that format."""
    page, content_type = await scene.exposition.render(accept)
    assert content_type.startswith(expected)
    assert page.endswith(b"# EOF\n") == content_type.startswith(OPENMETRICS)


def test_the_content_types_are_few() -> None:
    """No header yields further formats, or metric names that are not ours."""
    escapings = ("underscores", "dots", "values", "allow-utf-8", "nonsense")
    made = {
        negotiate(f"{kind};version={version};escaping={escaping}")[1]
        for kind in (OPENMETRICS, "text/plain")
        for version in ("0.0.1", "0.0.4", "1.0.0", "1.5.0", "2.0.0", "x")
        for escaping in escapings
    }
    assert len(made) <= 5
    assert not any("dots" in content_type or "values" in content_type for content_type in made)


async def test_a_page_is_made_in_the_worker_thread(scene: ExpositionScene) -> None:
    """No collector runs on the event loop."""
    spy = ThreadSpy()
    scene.registry.register(spy)
    page, _ = await scene.exposition.render("")
    assert b"spy 1.0" in page
    assert [name.startswith("metrics") for name in spy.threads] == [True]


async def test_scrapes_at_the_same_time_share_one_page(scene: ExpositionScene) -> None:
    """Concurrent scrapes share one rendering for each format; a later scrape gets a new one."""
    scene.may_gather.clear()
    crowd = [asyncio.create_task(scene.exposition.render("")) for _ in range(50)]
    crowd.append(asyncio.create_task(scene.exposition.render(OPENMETRICS)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    scene.may_gather.set()
    pages = await asyncio.gather(*crowd)
    assert scene.snapshots == 2
    assert len({id(page) for page, _ in pages}) == 2
    await scene.exposition.render("")
    assert scene.snapshots == 3


async def test_a_scraper_that_hangs_up_leaves_the_page_to_the_others(
    scene: ExpositionScene,
) -> None:
    """The shared page is finished for the scrapers that still wait."""
    scene.may_gather.clear()
    leaving = asyncio.create_task(scene.exposition.render(""))
    staying = asyncio.create_task(scene.exposition.render(""))
    await asyncio.sleep(0)
    leaving.cancel()
    scene.may_gather.set()
    page, _ = await staying
    assert b"dataprep_monitor_build_info" in page
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_a_page_that_renders_too_long_is_refused_and_nothing_piles_up() -> None:
    """Scrapes fail within their limit; when the cause is gone, the next one is served."""
    scene = ExpositionScene(timeout_seconds=0.02)
    scene.may_gather.clear()
    for _ in range(5):
        with pytest.raises(OutputUnavailableError):
            await scene.exposition.render("")
    assert scene.snapshots == 1
    scene.may_gather.set()
    await scene.exposition.close()


async def test_a_broken_collector_fails_its_page_only(scene: ExpositionScene) -> None:
    """The failure reaches the scraper; the next page is rendered anew."""
    spy = ThreadSpy()
    scene.registry.register(spy)
    spy.is_broken = True
    with pytest.raises(ValueError, match="broken collector"):
        await scene.exposition.render("")
    spy.is_broken = False
    page, _ = await scene.exposition.render("")
    assert b"spy 1.0" in page


async def test_names_of_the_collector_cannot_be_registered_twice(scene: ExpositionScene) -> None:
    """A second metric of the same name is an error at the start, not a broken page later."""
    with pytest.raises(ValueError, match="Duplicated"):
        Counter("dataprep_monitor_events_lost", "Twice.", registry=scene.registry)
    assert scene.snapshots == 0


async def test_the_lag_of_the_loop_is_what_a_sleeper_waits_too_long() -> None:
    """A sleeper that is woken late is measured by how late that was."""
    clock, registry = ManualClock(), CollectorRegistry()
    lag = LoopLag(clock=clock, registry=registry, interval_seconds=0.5)
    task = asyncio.create_task(lag.run())
    await clock.advance(0.5)
    await clock.advance(0.5)
    clock._monotonic += 0.75
    await clock.advance(0.0)
    task.cancel()
    value = registry.get_sample_value
    assert value("dataprep_monitor_event_loop_lag_seconds_count") == 3
    assert value("dataprep_monitor_event_loop_lag_seconds_sum") == 0.25
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("is_broken", [False, True])
async def test_no_garbage_is_looked_for_while_a_page_is_drawn(
    scene: ExpositionScene,
    is_broken: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The collector halts every thread; it goes on behind the page, also behind one that fails."""
    spy = ThreadSpy()
    scene.registry.register(spy)
    spy.is_collecting.clear()
    spy.is_broken = is_broken
    with contextlib.suppress(ValueError):
        await scene.exposition.render("")
    assert spy.is_collecting == [False]
    assert gc.isenabled()
