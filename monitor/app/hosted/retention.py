"""Removes from the store what its retention no longer keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta

import structlog
from prometheus_client import CollectorRegistry, Gauge

from monitor.alerting.rules.monitor_degraded import CLOCK
from monitor.app.hosted.hosting import Hosting
from monitor.bus.contract import Pruned
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import ShardStore
from monitor.bus.trusted_time import STEP_SECONDS, JudgedTime, TrustedTime
from monitor.model.alerts import Trouble
from monitor.model.clock import Clock, boottime
from monitor.model.words import duration

log = structlog.get_logger()

_BEGINNING = datetime.fromtimestamp(0, UTC)
_SHOWN_SECONDS = 3_600.0  # how long people are told of a step


class RetentionTask:
    """Applies retention.

    Ages are judged by the earlier one of the store's clock and ours, because what is stored has
    times of both, and by one that was set ahead only when it has gone on for a day.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        settings: StorageSettings,
        registry: CollectorRegistry,
        forget_audit: Callable[[datetime], Awaitable[int]],
        elapsed: Callable[[], float] = boottime,
    ) -> None:
        """``forget_audit`` removes the audit lines of before an instant."""
        self._clock = clock
        self._forget_audit = forget_audit
        self._settings = settings
        self._elapsed = elapsed
        self._time = TrustedTime(elapsed)
        self._judged: tuple[JudgedTime, float] | None = None  # and what had elapsed then
        self._step: tuple[Trouble, float] | None = None  # the newest, and when it was noticed
        self._behind = Gauge(
            "dataprep_monitor_retention_behind_seconds",
            "How far the time by which retention goes is behind the clock: a step ahead, or a "
            "time without a daemon, counts after one to two days of running.",
            registry=registry,
        )

    @property
    def trouble(self) -> Trouble | None:
        """The step of a clock that people should know of."""
        if self._step is None or self._elapsed() - self._step[1] >= _SHOWN_SECONDS:
            return None
        return self._step[0]

    def ages_at(self) -> datetime:
        """Return the time by which ages are judged; before the first judgement nothing is old."""
        if self._judged is None:
            return _BEGINNING
        judged, elapsed = self._judged
        return judged.at + timedelta(seconds=self._elapsed() - elapsed)

    def clock_was_set(self, step: timedelta) -> None:
        """Observe what the clock shows: it may be right again when ages are judged."""
        shown = self._clock.now()
        self._time.observe(shown)
        if abs(step.total_seconds()) > STEP_SECONDS:
            self._report(step.total_seconds(), shown)

    async def run(self, store: ShardStore, hosting: Hosting) -> None:
        """Apply retention until cancelled.

        Raises:
            BusUnavailableError: the store cannot be read or written; the supervisor tries again.
        """
        await self._judge(store)  # so that a step before the first time is noticed
        while True:
            await self._clock.sleep(self._settings.prune_seconds)
            for name, removed in (await self.apply(store)).items():
                if (shard := hosting.shards.get(name)) is not None:
                    shard.observer.counts.give_up(len(removed.callbacks))
                if removed.events or removed.runs:
                    shown = {"shard": name} if name else {}
                    log.info("retention applied", events=removed.events, runs=removed.runs, **shown)

    async def apply(self, store: ShardStore) -> Mapping[str, Pruned]:
        """Apply it once; return what was removed, by shard."""
        judged = await self._judge(store)
        kept = self._settings.retention
        pruned = await store.prune(kept, now=judged.at)
        await self._forget_audit(judged.at - timedelta(seconds=kept.audit_seconds))
        await store.keep_judged(judged)
        return pruned

    async def _judge(self, store: ShardStore) -> JudgedTime:
        times = await store.times()
        shown = min(times.now, self._clock.now())
        judged = self._time.judge(shown, before=times.judged)
        self._judged = judged, self._elapsed()
        self._behind.set((shown - judged.at).total_seconds())
        if (seconds := self._time.step_seconds) is not None:
            self._report(seconds, shown)
        return judged

    def _report(self, seconds: float, shown: datetime) -> None:
        reason = (
            f"the clock of this daemon or of its store was set {duration(abs(seconds))} "
            f"{'ahead' if seconds > 0 else 'back'}; for a day, ages are judged by the earlier time"
        )
        daemon = self._settings.daemon_id if self._settings.postgres else ""
        part = f"{CLOCK}:{daemon}" if daemon else CLOCK
        self._step = Trouble(part=part, since=shown, reason=reason), self._elapsed()
        log.warning("clock was set", reason=reason)
