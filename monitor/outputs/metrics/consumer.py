"""The consumer ``metrics``: each event counts once, over any crash.

The rows that a batch changes and the position after it are one step of the store, and what is
shown changes only when that step is durable.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram

from monitor.bus.contract import Batch, EventBus, Start, Step
from monitor.model.clock import Clock
from monitor.model.events import Event, EventType, RunEvent
from monitor.model.registries import made_once, process_registry
from monitor.model.runs import Source
from monitor.model.slices import in_slices
from monitor.outputs.metrics.counter_rows import (
    CounterRow,
    RunExemplar,
    decode_row,
    with_present_bounds,
)
from monitor.outputs.metrics.counting import CountingLimits, PendingCounts
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.tracking.live_state import LiveStateView

log = structlog.get_logger()

CONSUMER = "metrics"

_COUNTED_IN_A_SLICE = 50  # of a batch of 1,000 events
_LAG_BOUNDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600, 21600)


class _EventCounts:
    """What the process has taken from the logs of all its shards."""

    def __init__(self, registry: CollectorRegistry) -> None:
        events = Counter(
            "dataprep_monitor_events",
            "Events that this process has taken from the log, by type.",
            ["type"],
            registry=registry,
        )
        lag = Histogram(
            "dataprep_monitor_event_lag_seconds",
            "Seconds from what happened in the workspace until its event was made.",
            ["source"],
            buckets=_LAG_BOUNDS,
            registry=registry,
        )
        self.events = {event_type: events.labels(event_type) for event_type in EventType}
        self.lag = {source: lag.labels(source) for source in Source}


class MetricsConsumer:
    """Counts the log into rows. The values of ``rows`` and ``seen`` are never changed in place."""

    def __init__(
        self,
        *,
        bus: EventBus,
        live_state: LiveStateView,
        clock: Clock,
        registry: CollectorRegistry,
        settings: MetricsSettings,
        limits: CountingLimits,
    ) -> None:
        self.rows: dict[str, CounterRow] = {}
        self.seen: dict[str, Mapping[str, RunExemplar]] = {}  # exemplars live with the process
        self.position = 0
        self.is_restored = False  # before that, its counters would seem to restart
        self._is_as_stored = False  # nothing was counted since it was restored
        self._bus = bus
        self._live_state = live_state
        self._clock = clock
        self._settings = settings
        self.limits = limits  # other ones apply to what is counted from now on, and to `restore`
        self._counts = made_once(_EventCounts, process_registry(registry))

    async def run(self) -> None:
        """Count events until cancelled. May be started again: it goes on from the store.

        Raises:
            BusUnavailableError: whatever became of the last step, the next run asks the store.
        """
        if not self._is_as_stored:
            await self.restore()
        self._is_as_stored = False
        while True:
            counted = await self.count_some()
            if not counted:
                await self._bus.wait(self.position, timeout_seconds=self._settings.wait_seconds)
            elif counted < self._settings.batch_size:
                await self._clock.sleep(self._settings.pause_seconds)

    async def restore(self) -> None:
        """Read rows and position from the store, in place of those in memory.

        Raises:
            BusUnavailableError: the rows in memory are still shown.
        """
        position = await self._bus.subscribe(CONSUMER, start=Start.OLDEST)
        rows = _decode(await self._bus.consumer_state(CONSUMER))
        pending = PendingCounts(rows, limits=self.limits)
        pending.shrink()
        if pending.changed:
            await self._step(None, pending)
            log.info("counters merged to fit the budget", rows=len(pending.changed))
        _apply(pending.changed, rows)
        self.rows, self.position, self.is_restored = rows, position, True
        self._is_as_stored = True

    async def finish(self) -> None:
        """Count what the log holds; to be called when `run` has ended.

        A step that was cut off is made again, of the same rows and events.

        Raises:
            BusUnavailableError: the rest is counted after the next start.
        """
        while await self.count_some():
            pass

    async def count_some(self) -> int:
        """Count one batch and return how far that was; 0 if the log holds nothing new.

        Raises:
            BusUnavailableError: nothing was counted.
        """
        batch = await self._bus.read(CONSUMER, after=self.position, limit=self._settings.batch_size)
        position = _end_of(batch, self.position)
        if position == self.position:
            return 0
        if batch.gap is not None:
            log.warning("events lost before counting", lost=batch.gap.lost)
        pending = PendingCounts(self.rows, limits=self.limits)
        async for recorded in in_slices(batch.events, size=_COUNTED_IN_A_SLICE):
            pending.take(recorded.event)
        await self._step(position, pending)
        moved, self.position = position - self.position, position
        _apply(pending.changed, self.rows)
        self._remember(pending)
        async for recorded in in_slices(batch.events):  # up to `batch_size`
            self._count(recorded.event)
        return moved

    async def _step(self, position: int | None, pending: PendingCounts) -> None:
        state: dict[str, bytes | None] = {}
        # Several rows for each pipeline among a thousand events.
        async for key, row in in_slices(pending.changed.items()):
            state[key] = msgspec.json.encode(row) if row is not None else None
        await self._bus.advance(
            Step(consumer=CONSUMER, position=position, state=state),
            timeout_seconds=self._settings.commit_timeout_seconds,
        )

    def _remember(self, pending: PendingCounts) -> None:
        for key, row in pending.changed.items():
            if row is None:
                self.seen.pop(key, None)
        for key, seen in pending.seen.items():
            self.seen[key] = {**self.seen.get(key, {}), **seen}

    def _count(self, event: Event) -> None:
        self._counts.events[event.type].inc()
        if isinstance(event, RunEvent) and event.occurred_at is not None:
            status = self._live_state.workspace(event.workspace)
            skew = status.clock_skew_seconds if status is not None else None
            # The two instants are of two clocks; the skew is what the workspace is ahead.
            lag = (event.recorded_at - event.occurred_at).total_seconds() + (skew or 0.0)
            self._counts.lag[event.observed_by].observe(max(0.0, lag))


def _end_of(batch: Batch, after: int) -> int:
    if batch.events:
        return batch.events[-1].position
    return max(after, batch.gap.until) if batch.gap is not None else after


def _decode(state: Mapping[str, bytes]) -> dict[str, CounterRow]:
    rows: dict[str, CounterRow] = {}
    reset = 0
    for key, value in state.items():
        try:
            stored = decode_row(value)
        except msgspec.MsgspecError as exc:
            log.warning("stored counter unreadable; it starts at zero", key=key, reason=str(exc))
            continue
        rows[key] = with_present_bounds(stored)
        reset += rows[key] is not stored
    if reset:
        log.warning("stored histograms have other bounds; they start at zero", count=reset)
    return rows


def _apply(changed: Mapping[str, CounterRow | None], rows: dict[str, CounterRow]) -> None:
    for key, row in changed.items():
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row
