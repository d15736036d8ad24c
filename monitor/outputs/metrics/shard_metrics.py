"""The metrics of one shard: the consumer that counts, what is gathered, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from monitor.bus.contract import EventBus, StoreStatus
from monitor.model.alerts import AlertingSnapshot
from monitor.model.clock import Clock
from monitor.model.registries import ShardRegistry
from monitor.outputs.metrics.consumer import MetricsConsumer
from monitor.outputs.metrics.counting import CountingLimits
from monitor.outputs.metrics.drawing import ShardDrawing
from monitor.outputs.metrics.exposition_cache import Encoder, FamilyText
from monitor.outputs.metrics.metrics_snapshot import MetricsSnapshot, snapshot_of, status_of
from monitor.outputs.metrics.series_budget import limits_of
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.tracking.live_state import LiveStateView


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
