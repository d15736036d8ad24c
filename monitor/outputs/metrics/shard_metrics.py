"""The metrics of one shard: the consumer that counts, what is gathered, and how it is drawn.

`ShardDrawing` runs in the rendering thread, never on the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from monitor.bus.contract import EventBus, StoreStatus
from monitor.model.alerts import AlertingSnapshot
from monitor.model.clock import Clock
from monitor.model.registries import ShardRegistry
from monitor.outputs.metrics import families
from monitor.outputs.metrics.alert_metrics import alert_families
from monitor.outputs.metrics.consumer import CONSUMER, MetricsConsumer
from monitor.outputs.metrics.counting import CountingLimits
from monitor.outputs.metrics.exposition_cache import (
    Encoder,
    ExpositionCache,
    ExpositionPage,
    FamilyText,
)
from monitor.outputs.metrics.inventory_metrics import SeriesByMetric
from monitor.outputs.metrics.metrics_snapshot import MetricsSnapshot, snapshot_of, status_of
from monitor.outputs.metrics.series_budget import lay_out, limits_of
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.metrics.watched import watched_families
from monitor.tracking.live_state import LiveStateView


class ShardDrawing:
    """Keeps the starts of lines for the next page, and which series had no place on the last."""

    def __init__(
        self,
        *,
        shard: str,
        limits: CountingLimits,
        stale_after_seconds: float,
        capabilities: Sequence[str],
    ) -> None:
        self.limits = limits
        self.stale_after_seconds = stale_after_seconds
        self._shard = shard
        self._capabilities = capabilities
        self._exposition_cache = ExpositionCache()
        self._left_out: Mapping[Hashable, SeriesByMetric] = {}
        self._dropped: dict[str, int] = {}

    def draw(
        self, snapshot: MetricsSnapshot, encoder: Encoder, *, is_openmetrics: bool
    ) -> Iterator[FamilyText]:
        """Yield the families as ``encoder`` would write them: the same ones for every snapshot."""
        layout = lay_out(snapshot, limits=self.limits)
        self._count_dropped(layout.dropped)
        page = self._exposition_cache.begin(
            encoder, is_openmetrics=is_openmetrics, shard=self._shard
        )
        series = 0
        for family_text in watched_families(
            snapshot,
            layout,
            page,
            stale_after_seconds=self.stale_after_seconds,
            capabilities=self._capabilities,
        ):
            series += len(family_text)
            yield family_text
        yield from operation_families(snapshot, page)
        yield from self._budget(page, series)

    def _count_dropped(self, left_out: Mapping[Hashable, SeriesByMetric]) -> None:
        for owner, series in left_out.items():
            before = self._left_out.get(owner, {})
            if series is before:  # as of most owners, on most pages
                continue
            for metric, count in series.items():
                if metric not in before:
                    self._dropped[metric] = self._dropped.get(metric, 0) + count
        # Only the present is kept, so that this cannot grow with pipelines that are gone.
        self._left_out = left_out

    def _budget(self, page: ExpositionPage, series: int) -> Iterator[FamilyText]:
        shown = page.family_text(families.SERIES)
        dropped = page.family_text(families.SERIES_DROPPED)
        shown.add((), series)
        own = (families.SCHEDULE_ENABLED, *families.INVENTORY)
        for shape in (*families.SERIES_OF_PIPELINE, *own):
            dropped.add((shape.name,), self._dropped.get(shape.name, 0))
        yield from (shown, dropped)


def operation_families(snapshot: MetricsSnapshot, page: ExpositionPage) -> Iterator[FamilyText]:
    """Yield what is known of polls, callbacks, alerts and consumers; the same families each time.

    Those without anything known have no series.
    """
    yield _polls(snapshot, page.family_text(families.POLL_SUCCESS))
    yield from _callbacks(snapshot, page)
    yield from alert_families(snapshot, page)
    yield from _consumers(snapshot.bus, page)


def _polls(snapshot: MetricsSnapshot, family_text: FamilyText) -> FamilyText:
    for poll in snapshot.polls:
        if poll.last_success_at is not None:
            family_text.add((poll.workspace, poll.poll), poll.last_success_at.timestamp())
    return family_text


def _callbacks(snapshot: MetricsSnapshot, page: ExpositionPage) -> Iterator[FamilyText]:
    received = page.family_text(families.CALLBACK_RECEIVED)
    tasks = page.family_text(families.WEBHOOK_TASKS)
    missed = page.family_text(families.CALLBACKS_MISSED)
    for workspace in snapshot.workspaces:
        missed.add((workspace.workspace,), workspace.callbacks_missed)
        if workspace.last_callback_at is not None:
            received.add((workspace.workspace,), workspace.last_callback_at.timestamp())
        for state, count in sorted(workspace.webhook_tasks.items()):
            tasks.add((workspace.workspace, state), count)
    yield from (received, tasks, missed)


def _consumers(status: StoreStatus | None, page: ExpositionPage) -> Iterator[FamilyText]:
    backlog = page.family_text(families.CONSUMER_BACKLOG)
    oldest = page.family_text(families.CONSUMER_OLDEST)
    lost = page.family_text(families.EVENTS_LOST)
    letters = page.family_text(families.DEAD_LETTERS)
    for consumer in () if status is None else status.consumers:
        backlog.add((consumer.consumer,), consumer.backlog)
        lost.add((consumer.consumer,), consumer.lost)
        if consumer.oldest_at is not None:
            oldest.add((consumer.consumer,), consumer.oldest_at.timestamp())
        if consumer.consumer != CONSUMER:
            letters.add((consumer.consumer,), consumer.dead_letters)
    yield from (backlog, oldest, lost, letters)


class ShardMetrics:
    """One shard's part of every page. ``consumer.run`` is its task.

    ``capabilities`` are the words of all capabilities there are, so that one that a workspace
    lacks is shown as 0. ``alerting`` returns the present alerts; it is called on the event loop
    and must not wait.
    """

    def __init__(
        self,
        *,
        bus: EventBus,
        live_state: LiveStateView,
        clock: Clock,
        registry: ShardRegistry,
        settings: MetricsSettings,
        capabilities: Sequence[str] = (),
        alerting: Callable[[], AlertingSnapshot] | None = None,
    ) -> None:
        self.registry = registry
        self._has_ended = False
        self._bus = bus
        self._live_state = live_state
        self._clock = clock
        self._settings = settings
        self._alerting = alerting
        limits = self._limits()
        self.consumer = MetricsConsumer(
            bus=bus,
            live_state=live_state,
            clock=clock,
            registry=registry,
            settings=settings,
            limits=limits,
        )
        self._drawing = ShardDrawing(
            shard=bus.shard,
            limits=limits,
            stale_after_seconds=settings.stale_after_seconds,
            capabilities=capabilities,
        )

    def may_show(self) -> bool:
        """True while what is counted is known, and no other daemon can be showing the shard."""
        return self.consumer.is_restored and not self._has_ended and self._bus.may_publish()

    def end(self) -> None:
        """Show nothing any more, also on no page that is being made."""
        self._has_ended = True

    def reconfigure(self, settings: MetricsSettings) -> None:
        """Show and count by other settings, and other workspaces, from now on.

        Rows that a smaller budget has no place for are merged when ``consumer.run`` starts again.
        """
        self._settings = settings
        self.consumer.limits = self._drawing.limits = self._limits()
        self._drawing.stale_after_seconds = settings.stale_after_seconds

    def _limits(self) -> CountingLimits:
        return limits_of(
            series_budget=self._settings.series_budget,
            forget_seconds=self._settings.forget_pipelines_seconds,
            workspaces=len(self._live_state.workspaces()),
        )

    # --- a page ---

    async def read_store(self) -> StoreStatus | None:
        """Return the store's figures, which are waited for; None where they do not come in time."""
        return await status_of(self._bus, timeout_seconds=self._settings.standing_timeout_seconds)

    def snapshot(self, status: StoreStatus | None) -> MetricsSnapshot:
        """Freeze the present, all of it of one moment."""
        return snapshot_of(
            self._live_state,
            now=self._clock.now(),
            rows=self.consumer.rows,
            seen=self.consumer.seen,
            bus=status,
            alerting=self._alerting() if self._alerting is not None else None,
        )

    def draw(
        self, snapshot: MetricsSnapshot, encoder: Encoder, *, is_openmetrics: bool
    ) -> Iterator[FamilyText]:
        """Yield the families of the page, the same for every shard; in the rendering thread."""
        return self._drawing.draw(snapshot, encoder, is_openmetrics=is_openmetrics)
