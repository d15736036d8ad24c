"""Starts that were missed: those of open alerts, and those that ended alerts tell of."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import Alert, AlertState, PastQuery
from monitor.web.views.overview.pipeline_state import PipelineKey, PipelineRow, key_of_alert
from monitor.web.views.overview.recent_overview import computed
from monitor.web.views.sources import ViewSources

_MOST = 10_000  # ended alerts
# The snapshot of alerting, which rows are made of, shows each ended alert for an hour.
_READ_AGAIN_SECONDS = 900.0
# An alert ends as of the start that ends it. This early it came in time, and was only seen late.
_IN_TIME = timedelta(minutes=1)


class MissedStart(Struct, frozen=True, kw_only=True):
    """An expected start that no run came for; ``count`` of them where more have followed."""

    at: datetime
    count: int
    until: datetime | None  # when its alert ended; None: it is open


class MissedStarts:
    """Keeps what ended alerts tell, and reads it again now and then."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources
        self._lock = asyncio.Lock()
        self._read_at: float | None = None
        self._ended: Mapping[PipelineKey | None, Sequence[Alert]] = {}

    async def get(self, rows: Iterable[PipelineRow]) -> dict[PipelineKey, tuple[MissedStart, ...]]:
        """Return the missed starts of each pipeline, oldest first."""
        async with self._lock:
            await self._read_again()
        return {row.key: _missed(row, self._ended.get(row.key, ())) for row in rows}

    async def _read_again(self) -> None:
        now = self._sources.clock.monotonic()
        if self._read_at is not None and now - self._read_at < _READ_AGAIN_SECONDS:
            return
        query = PastQuery(rule_kind=RuleKind.SCHEDULE_MISSED, limit=_MOST)
        past = await self._sources.alerting.past(query)
        self._read_at, self._ended = now, await computed(len(past), _by_pipeline, past)


def _by_pipeline(past: Iterable[Alert]) -> dict[PipelineKey | None, list[Alert]]:
    ended: defaultdict[PipelineKey | None, list[Alert]] = defaultdict(list)
    for alert in past:
        # One that ended before its grace was over was never missed.
        if alert.state is AlertState.RESOLVED:
            ended[key_of_alert(alert)].append(alert)
    return dict(ended)


def _missed(row: PipelineRow, ended: Iterable[Alert]) -> tuple[MissedStart, ...]:
    alerts = {(alert.fingerprint, alert.starts_at): alert for alert in (*ended, *row.missed_alerts)}
    missed = filter(_was_missed, alerts.values())
    return tuple(map(_missed_start, sorted(missed, key=_starts_at)))


def _missed_start(alert: Alert) -> MissedStart:
    count = alert.facts.get("missed")
    return MissedStart(
        at=alert.starts_at,
        count=int(count) if isinstance(count, float | int) else 1,
        until=alert.ends_at,
    )


def _was_missed(alert: Alert) -> bool:
    return alert.ends_at is None or alert.ends_at - alert.starts_at > _IN_TIME


def _starts_at(alert: Alert) -> datetime:
    return alert.starts_at
