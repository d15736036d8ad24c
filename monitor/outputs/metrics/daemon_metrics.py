"""Metrics of the daemon, put together: what it says of itself, its shards, and the page."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain

import msgspec
import structlog
from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Histogram,
    Metric,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS

from monitor.bus.contract import StoreStatus
from monitor.model.clock import Clock
from monitor.model.errors import OutputUnavailableError
from monitor.model.slices import in_slices, without_garbage_collection
from monitor.outputs.metrics import families
from monitor.outputs.metrics.exposition_cache import Encoder, texts_of
from monitor.outputs.metrics.families import Family
from monitor.outputs.metrics.metrics_snapshot import MetricsSnapshot
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.metrics.shard_metrics import ShardMetrics

_LAG_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
log = structlog.get_logger()
_SHARDS_IN_A_SLICE = 10  # of thousands
_ACCEPT_BOUND = 1_000  # characters of an Accept header that are read
_VERSIONS = ("0.0.4", "1.0.0")
# Those that leave our names, which need no escaping, as they are; "" where none is named.
_ESCAPINGS = ("", "underscores", "allow-utf-8")


class ConfigurationStatus(Struct, frozen=True, kw_only=True):
    """Which configuration is in force, and whether the one read last is that one."""

    hash: str
    is_newest: bool = True


class DaemonCollector:
    """Build, configuration and store. Written on the loop, collected in the rendering thread."""

    def __init__(self, *, version: str) -> None:
        self._version = version
        self._configuration: ConfigurationStatus | None = None
        self.store_bytes: int | None = None  # None where the store did not answer in time

    def configuration_taken(self, configuration_hash: str) -> None:
        """Show this configuration as the one in force."""
        self._configuration = ConfigurationStatus(hash=configuration_hash)

    def configuration_refused(self) -> None:
        """Show that what was read last is not in force; the one before still is."""
        if self._configuration is not None:
            self._configuration = msgspec.structs.replace(self._configuration, is_newest=False)

    def describe(self) -> Iterator[Family]:
        """Name all families, drawn or collected, so that no other can register the same."""
        return (shape.family() for shape in families.SHAPES)

    def collect(self) -> Iterator[Family]:
        build = families.BUILD_INFO.info()
        build.add_metric(
            [], {"version": self._version, "python_version": platform.python_version()}
        )
        yield build
        if (status := self._configuration) is not None:
            info, success = families.CONFIG_INFO.info(), families.CONFIG_SUCCESS.gauge()
            info.add_metric([], {"hash": status.hash})
            success.add_metric([], status.is_newest)
            yield from (info, success)
        if self.store_bytes is not None:
            store_bytes = families.STORE_BYTES.gauge()
            store_bytes.add_metric([], self.store_bytes)
            yield store_bytes


class LoopLag:
    """Measures how late the event loop wakes a sleeper: what every answer waits in addition."""

    def __init__(
        self, *, clock: Clock, registry: CollectorRegistry, interval_seconds: float
    ) -> None:
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._lag = Histogram(
            "dataprep_monitor_event_loop_lag_seconds",
            "Seconds by which the event loop woke a sleeping task too late.",
            buckets=_LAG_BOUNDS,
            registry=registry,
        )

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due = self._clock.monotonic() + self._interval_seconds
            await self._clock.sleep(self._interval_seconds)
            self._lag.observe(max(0.0, self._clock.monotonic() - due))


def negotiate(accept: str) -> tuple[Encoder, str]:
    """Choose an encoder and its content type. Every header gets an answer, an odd one plain text.

    Only versions that we know and escapings that do not alter our names are spoken, whatever the
    scraper names: the content type repeats them, and each is rendered once for all who wait.
    """
    try:
        encoder, content_type = choose_encoder(accept[:_ACCEPT_BOUND])
    except TypeError:  # the library compares a version that is no number
        return choose_encoder("")
    if not any(f"version={version};" in f"{content_type};" for version in _VERSIONS):
        return choose_encoder(OPENMETRICS)
    plain, _, escaping = content_type.partition("; escaping=")
    if escaping in _ESCAPINGS:
        return encoder, content_type
    return choose_encoder(plain)


class _Page(Struct, frozen=True):
    """A page, and the shards that it shows."""

    text: bytes
    shards: Sequence[ShardMetrics]

    def may_be_shown(self) -> bool:
        return all(shard.may_show() for shard in self.shards)


class Exposition:
    """Renders pages. Scrapes that come while one of their format is in the making share it."""

    def __init__(
        self,
        *,
        registry: CollectorRegistry,
        shards: Callable[[], Sequence[ShardMetrics]],
        daemon: DaemonCollector,
        timeout_seconds: float,
    ) -> None:
        self._registry = registry
        self._shards = shards
        self._daemon = daemon
        self.timeout_seconds = timeout_seconds
        # At most one for each content type, so neither tasks nor the thread's queue can grow.
        self._making: dict[str, asyncio.Task[_Page]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metrics")

    async def render(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its content type for an Accept header, which may be empty.

        Raises:
            OutputUnavailableError: there is no page within the time limit.
        """
        encoder, content_type = negotiate(accept)
        try:
            async with asyncio.timeout(self.timeout_seconds):
                while True:
                    # Shielded: one scraper that hangs up does not take the page from the others.
                    page = await asyncio.shield(self._begun(encoder, content_type))
                    # A shard that was lost meanwhile may be on another daemon's page by now.
                    if page.may_be_shown():
                        return page.text, content_type
        except TimeoutError as exc:
            raise OutputUnavailableError(
                f"the metrics page was not ready within {self.timeout_seconds:g} s"
            ) from exc

    async def close(self) -> None:
        """Stop rendering. A page that is being made is waited for, within the time limit."""
        making = list(self._making.values())
        if making:
            await asyncio.wait(making, timeout=self.timeout_seconds)
        for task in making:
            task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begun(self, encoder: Encoder, content_type: str) -> asyncio.Task[_Page]:
        making = self._making.get(content_type)
        if making is None:
            making = asyncio.create_task(
                self._make(encoder, content_type), name=f"render {content_type}"
            )
            self._making[content_type] = making
            making.add_done_callback(partial(self._made, content_type))
        return making

    def _made(self, content_type: str, made: asyncio.Task[_Page]) -> None:
        self._making.pop(content_type, None)
        # All who waited may be gone; then the failure is not lost in silence.
        if not made.cancelled() and (error := made.exception()) is not None:
            log.warning("metrics page failed", reason=repr(error))

    async def _make(self, encoder: Encoder, content_type: str) -> _Page:
        snapshots = await _gather([shard for shard in self._shards() if shard.may_show()])
        loop = asyncio.get_running_loop()
        text = await loop.run_in_executor(
            self._thread, self._draw, snapshots, encoder, content_type
        )
        return _Page(text, tuple(snapshots))

    def _draw(
        self,
        snapshots: dict[ShardMetrics, MetricsSnapshot],
        encoder: Encoder,
        content_type: str,
    ) -> bytes:
        is_openmetrics = content_type.startswith("application/openmetrics-text")
        with without_garbage_collection():
            drawn = [
                shard.draw(snapshot, encoder, is_openmetrics=is_openmetrics)
                for shard, snapshot in snapshots.items()
            ]
            # Family by family, because each may stand on a page only once.
            texts = chain.from_iterable(texts_of(same) for same in zip(*drawn, strict=True))
            self._daemon.store_bytes = _most_bytes(snapshots.values())
            # What is watched comes first: what the library writes ends an OpenMetrics page.
            rest = _Merged([self._registry, *(shard.registry for shard in snapshots)])
            return b"".join([*texts, encoder(rest)])


async def _gather(shards: Sequence[ShardMetrics]) -> dict[ShardMetrics, MetricsSnapshot]:
    """Return what each shard shows. The stores' figures come first, because they are waited for."""
    async with asyncio.TaskGroup() as group:
        reading = {
            shard: group.create_task(shard.read_store(), name="metrics: read the store")
            async for shard in in_slices(shards, size=_SHARDS_IN_A_SLICE)
        }
    return {
        shard: shard.snapshot(read.result())
        async for shard, read in in_slices(reading.items(), size=_SHARDS_IN_A_SLICE)
    }


def _most_bytes(snapshots: Iterable[MetricsSnapshot]) -> int | None:
    """Return the size of the store; shards that share one know no more than all of it."""
    return max((status.store_bytes for status in _statuses(snapshots)), default=None)


def _statuses(snapshots: Iterable[MetricsSnapshot]) -> Iterator[StoreStatus]:
    return (snapshot.bus for snapshot in snapshots if snapshot.bus is not None)


class _Merged:
    """Registries with each family once, of all that have series of it, and without ``_created``.

    Those double the page without use.
    """

    def __init__(self, registries: Iterable[CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterator[Metric]:
        merged: dict[str, Metric] = {}
        for metric in chain.from_iterable(each.collect() for each in self._registries):
            created = f"{metric.name}_created"
            samples = [sample for sample in metric.samples if sample.name != created]
            if (family := merged.get(metric.name)) is None:
                merged[metric.name] = metric
                metric.samples = samples
            else:
                family.samples += samples
        yield from merged.values()


class DaemonMetrics:
    """Metrics of one process. ``loop_lag.run`` is its task.

    Shards come and go while pages are made.
    """

    def __init__(
        self,
        *,
        registry: CollectorRegistry,
        clock: Clock,
        settings: MetricsSettings,
        version: str,
    ) -> None:
        self._registry = registry
        self._shards: list[ShardMetrics] = []
        self._daemon = DaemonCollector(version=version)
        registry.register(self._daemon)
        for process in (ProcessCollector, PlatformCollector, GCCollector):
            process(registry=registry)
        self.loop_lag = LoopLag(
            clock=clock, registry=registry, interval_seconds=settings.loop_lag_interval_seconds
        )
        self.exposition = Exposition(
            registry=registry,
            shards=lambda: tuple(self._shards),
            daemon=self._daemon,
            timeout_seconds=settings.render_timeout_seconds,
        )
        self.configuration_taken = self._daemon.configuration_taken
        self.configuration_refused = self._daemon.configuration_refused

    def add(self, shard: ShardMetrics) -> None:
        """Show this shard too, on every page that is begun from now on.

        To be called once all that it counts is read from the store, but for ``consumer``.
        """
        self._shards.append(shard)

    def remove(self, shard: ShardMetrics) -> None:
        """Show this shard no more, if it ever was."""
        shard.end()
        self._shards = [other for other in self._shards if other is not shard]

    def registries(self) -> list[CollectorRegistry]:
        """Return the registries of the process and of its shards."""
        return [self._registry, *(shard.registry for shard in self._shards)]

    def reconfigure(self, settings: MetricsSettings) -> None:
        """Make pages by other settings from now on; shards have theirs of their own."""
        self.exposition.timeout_seconds = settings.render_timeout_seconds
