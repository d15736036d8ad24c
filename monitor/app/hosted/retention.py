"""Removes from the store what its retention no longer keeps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import structlog
from prometheus_client import CollectorRegistry, Gauge

from monitor.alerting.rules.monitor_degraded import CLOCK
from monitor.app.hosted.hosting import Hosting
from monitor.bus.contract import Pruned
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import ShardStore
from monitor.bus.trusted_time import SETTLED_SECONDS, TrustedTime, UntrustedClockStep
from monitor.model.alerts import Trouble
from monitor.model.clock import Clock, boottime
from monitor.model.errors import BusUnavailableError
from monitor.model.words import duration

log = structlog.get_logger()

_SHOWN_SECONDS = 3_600.0  # how long people are told of a step
_NOTHING_IS_OLD = datetime.fromtimestamp(0, UTC)


class RetentionTask:
    """Applies retention. ``trouble`` is set while it deletes nothing by age: a clock was set.

    Ages are judged by the earlier one of the store's clock and ours: what is stored has times of
    both. Bounds of numbers hold always.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        settings: StorageSettings,
        registry: CollectorRegistry,
        elapsed: Callable[[], float] = boottime,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._time = TrustedTime(elapsed)
        self._since: datetime | None = None
        self._step: UntrustedClockStep | None = None
        self._waits = Gauge(
            "dataprep_monitor_retention_waits_seconds",
            "Seconds until retention deletes by age again, because a clock was set; 0 if it does.",
            registry=registry,
        )

    @property
    def trouble(self) -> Trouble | None:
        """What people should know; not that no daemon was running before this one."""
        step = self._step
        if step is None or step.at_start or self._since is None:
            return None
        if step.waits_seconds < SETTLED_SECONDS - _SHOWN_SECONDS:
            return None
        return Trouble(part=CLOCK, since=self._since, reason=_words(step))

    def clock_was_set(self, step: timedelta) -> None:
        """What was stored meanwhile has times of a clock that was wrong: judge no age for a day."""
        self._time.clock_was_set(step.total_seconds())

    async def run(self, store: ShardStore, hosting: Hosting) -> None:
        """Apply retention until cancelled. A store that cannot be written is tried again."""
        with contextlib.suppress(BusUnavailableError):  # the next judgement says so
            await self._judge(store)  # so that a step before the first time is noticed
        while True:
            await self._clock.sleep(self._settings.prune_seconds)
            try:
                pruned = await self.apply(store)
            except BusUnavailableError as exc:
                log.warning("retention waits for the store", reason=str(exc))
                continue
            for name, removed in pruned.items():
                if (shard := hosting.shards.get(name)) is not None:
                    shard.observer.give_up(len(removed.callbacks))
                if removed.events or removed.runs:
                    shown = {"shard": name} if name else {}
                    log.info("retention applied", events=removed.events, runs=removed.runs, **shown)

    async def apply(self, store: ShardStore) -> Mapping[str, Pruned]:
        """Apply it once; return what was removed, by shard."""
        now = await self._judge(store)
        pruned = await store.prune(self._settings.retention, now=now or _NOTHING_IS_OLD)
        if now is not None:
            await store.keep_judged_at(now)
        return pruned

    async def _judge(self, store: ShardStore) -> datetime | None:
        """Return the time of now; None while nothing may be deleted by its age."""
        times = await store.times()
        shown = min(times.now, self._clock.now())
        now = self._time.judge(shown, judged_at=times.judged_at)
        self._show(self._time.step, shown)
        return now

    def _show(self, step: UntrustedClockStep | None, shown: datetime) -> None:
        self._waits.set(0.0 if step is None else step.waits_seconds)
        is_new = step is not None and (self._step is None or step.seconds != self._step.seconds)
        self._step = step
        if step is not None and is_new:
            self._since = shown
            report = log.info if step.at_start else log.warning
            report("retention waits", reason=_words(step))


def _words(step: UntrustedClockStep) -> str:
    way = "ahead" if step.seconds > 0 else "back"
    moved = duration(abs(step.seconds))
    since = " since a daemon last ran" if step.at_start else ""
    return (
        f"the clock of this daemon or of its store went {way} by {moved}{since}; nothing is "
        "deleted by its age until the clock has gone on for a day"
    )
