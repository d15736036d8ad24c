"""How a page is rendered: negotiated, off the loop, shared, and in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Metric
from prometheus_client.core import GaugeMetricFamily

from monitor.bus.contract import StoreStatus
from monitor.bus.sqlite import SqliteBus
from monitor.model.errors import OutputUnavailableError
from monitor.outputs.metrics.daemon_metrics import LoopLag
from monitor.outputs.metrics.exposition import negotiate
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.tracking.live_state import LiveState
from tests.clocks import ManualClock
from tests.outputs.metrics_parts import Metrics

OPENMETRICS = "application/openmetrics-text"


class HeldStore(SqliteBus):
    """A store that gives its figures when the test allows it, and counts who asked."""

    asked: int
    may_answer: asyncio.Event

    @classmethod
    def of(cls, bus: SqliteBus) -> HeldStore:
        store = cls.__new__(cls)
        store.__dict__.update(bus.__dict__)
        store.asked, store.may_answer = 0, asyncio.Event()
        store.may_answer.set()
        return store

    async def status(self) -> StoreStatus:
        self.asked += 1
        await self.may_answer.wait()
        return await super().status()


class ExpositionScenario:
    """An exposition whose snapshot is gathered when the test allows it."""

    def __init__(self, store: HeldStore, *, timeout_seconds: float) -> None:
        self.store = store
        self.registry = CollectorRegistry()
        self.metrics = Metrics(
            bus=store,
            live_state=LiveState(["one"]).view,
            clock=ManualClock(),
            registry=self.registry,
            settings=MetricsSettings(
                render_timeout_seconds=timeout_seconds, standing_timeout_seconds=60.0
            ),
        )
        self.exposition = self.metrics.exposition


@asynccontextmanager
async def opened(
    folder: Path, *, timeout_seconds: float = 5.0
) -> AsyncIterator[ExpositionScenario]:
    bus = await SqliteBus.open(
        folder / "state.db", clock=ManualClock(), registry=CollectorRegistry()
    )
    scenario = ExpositionScenario(HeldStore.of(bus), timeout_seconds=timeout_seconds)
    await scenario.metrics.consumer.restore()
    yield scenario
    scenario.store.may_answer.set()
    await scenario.exposition.close()
    await bus.close()


@pytest.fixture
async def scenario(tmp_path: Path) -> AsyncIterator[ExpositionScenario]:
    async with opened(tmp_path) as made:
        yield made


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
    scenario: ExpositionScenario, accept: str, expected: str
) -> None:
    """The content type is a supported one, and the page has that format."""
    page, content_type = await scenario.exposition.render(accept)
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


async def test_a_page_is_made_in_the_worker_thread(scenario: ExpositionScenario) -> None:
    """No collector runs on the event loop."""
    spy = ThreadSpy()
    scenario.registry.register(spy)
    page, _ = await scenario.exposition.render("")
    assert b"spy 1.0" in page
    assert [name.startswith("metrics") for name in spy.threads] == [True]


async def test_scrapes_at_the_same_time_share_one_page(scenario: ExpositionScenario) -> None:
    """Concurrent scrapes share one rendering for each format; a later scrape gets a new one."""
    scenario.store.may_answer.clear()
    crowd = [asyncio.create_task(scenario.exposition.render("")) for _ in range(50)]
    crowd.append(asyncio.create_task(scenario.exposition.render(OPENMETRICS)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    scenario.store.may_answer.set()
    pages = await asyncio.gather(*crowd)
    assert scenario.store.asked == 2
    assert len({id(page) for page, _ in pages}) == 2
    await scenario.exposition.render("")
    assert scenario.store.asked == 3


async def test_a_scraper_that_hangs_up_leaves_the_page_to_the_others(
    scenario: ExpositionScenario,
) -> None:
    """The shared page is finished for the scrapers that still wait."""
    scenario.store.may_answer.clear()
    leaving = asyncio.create_task(scenario.exposition.render(""))
    staying = asyncio.create_task(scenario.exposition.render(""))
    await asyncio.sleep(0)
    leaving.cancel()
    scenario.store.may_answer.set()
    page, _ = await staying
    assert b"dataprep_monitor_build_info" in page
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_a_page_that_renders_too_long_is_refused_and_nothing_piles_up(
    tmp_path: Path,
) -> None:
    """Scrapes fail within their limit; when the cause is gone, the next one is served."""
    async with opened(tmp_path, timeout_seconds=0.1) as scenario:
        scenario.store.may_answer.clear()
        for _ in range(5):
            with pytest.raises(OutputUnavailableError):
                await scenario.exposition.render("")
        assert scenario.store.asked == 1


async def test_a_broken_collector_fails_its_page_only(scenario: ExpositionScenario) -> None:
    """The failure reaches the scraper; the next page is rendered again."""
    spy = ThreadSpy()
    scenario.registry.register(spy)
    spy.is_broken = True
    with pytest.raises(ValueError, match="broken collector"):
        await scenario.exposition.render("")
    spy.is_broken = False
    page, _ = await scenario.exposition.render("")
    assert b"spy 1.0" in page


async def test_names_of_the_collector_cannot_be_registered_twice(
    scenario: ExpositionScenario,
) -> None:
    """A second metric of the same name is an error at the start, not a broken page later."""
    with pytest.raises(ValueError, match="Duplicated"):
        Counter("dataprep_monitor_events_lost", "Twice.", registry=scenario.registry)
    assert scenario.store.asked == 0


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
    scenario: ExpositionScenario,
    is_broken: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The collector halts every thread; it goes on after the page, also after one that fails."""
    spy = ThreadSpy()
    scenario.registry.register(spy)
    spy.is_collecting.clear()
    spy.is_broken = is_broken
    with contextlib.suppress(ValueError):
        await scenario.exposition.render("")
    assert spy.is_collecting == [False]
    assert gc.isenabled()
