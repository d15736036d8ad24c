"""Renders the metrics page: negotiates the format, gathers all shards, draws in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain

import structlog
from msgspec import Struct
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS

from monitor.bus.contract import StoreStatus
from monitor.model.errors import OutputUnavailableError
from monitor.model.slices import in_slices, without_garbage_collection
from monitor.outputs.metrics.exposition_cache import Encoder, texts_of
from monitor.outputs.metrics.metrics_snapshot import MetricsSnapshot
from monitor.outputs.metrics.shard_metrics import ShardMetrics

log = structlog.get_logger()

_SHARDS_IN_A_SLICE = 10  # of thousands
_ACCEPT_BOUND = 1_000  # characters of an Accept header that are read
_VERSIONS = ("0.0.4", "1.0.0")
# Those that leave our names, which need no escaping, as they are; "" where none is named.
_ESCAPINGS = ("", "underscores", "allow-utf-8")


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
        store_measured: Callable[[int | None], None],
        timeout_seconds: float,
    ) -> None:
        """``store_measured`` is called in the rendering thread, before the registry is drawn."""
        self._registry = registry
        self._shards = shards
        self._store_measured = store_measured
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
            self._store_measured(_most_bytes(snapshots.values()))
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
