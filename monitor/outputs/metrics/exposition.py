"""Turns the registry into a page: negotiated, rendered in one worker thread, in bounded time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import structlog
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS

from monitor.model.errors import OutputUnavailableError
from monitor.outputs.metrics.collector import SnapshotCollector
from monitor.outputs.metrics.exposition_cache import Encoder
from monitor.outputs.metrics.snapshot import MetricsSnapshot

log = structlog.get_logger()

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


class Exposition:
    """Renders pages. Scrapes that come while one of their format is in the making share it."""

    def __init__(
        self,
        *,
        registry: CollectorRegistry,
        collector: SnapshotCollector,
        gather: Callable[[], Awaitable[MetricsSnapshot]],
        timeout_seconds: float,
    ) -> None:
        self._rest = _WithoutCreated(registry)
        self._collector = collector
        self._gather = gather
        self.timeout_seconds = timeout_seconds
        # At most one for each content type, so neither tasks nor the thread's queue can grow.
        self._making: dict[str, asyncio.Task[bytes]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metrics")

    async def render(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its content type for an Accept header, which may be empty.

        Raises:
            OutputUnavailableError: there is no page within the time limit.
        """
        encoder, content_type = negotiate(accept)
        making = self._making.get(content_type)
        if making is None:
            making = asyncio.create_task(
                self._make(encoder, content_type), name=f"render {content_type}"
            )
            self._making[content_type] = making
            making.add_done_callback(partial(self._made, content_type))
        try:
            async with asyncio.timeout(self.timeout_seconds):
                # Shielded: one scraper that hangs up does not take the page from the others.
                return await asyncio.shield(making), content_type
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

    def _made(self, content_type: str, made: asyncio.Task[bytes]) -> None:
        self._making.pop(content_type, None)
        # Everybody who waited may be gone; a failure that nobody took is not lost in silence.
        if not made.cancelled() and (error := made.exception()) is not None:
            log.warning("metrics page failed", reason=repr(error))

    async def _make(self, encoder: Encoder, content_type: str) -> bytes:
        snapshot = await self._gather()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._draw, snapshot, encoder, content_type)

    def _draw(self, snapshot: MetricsSnapshot, encoder: Encoder, content_type: str) -> bytes:
        is_openmetrics = content_type.startswith("application/openmetrics-text")
        # A page makes some 50,000 objects without cycles, and all of them end with it. Each search
        # for garbage among them would halt every thread for milliseconds.
        is_collecting = gc.isenabled()
        gc.disable()
        try:
            watched = self._collector.draw(snapshot, encoder, is_openmetrics=is_openmetrics)
            # What is watched comes first: what the library writes ends an OpenMetrics page.
            return b"".join([*watched, encoder(self._rest)])
        finally:
            if is_collecting:
                gc.enable()


class _WithoutCreated:
    """The registry less the ``_created`` series, which double the page and help nobody."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            name = f"{metric.name}_created"
            metric.samples = [sample for sample in metric.samples if sample.name != name]
            yield metric
