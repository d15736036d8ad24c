"""The daemon itself: versions, readiness and rules, and its store of events and runs."""

from __future__ import annotations

import platform
from datetime import datetime

from msgspec import Struct

from monitor import __version__
from monitor.bus.contract import WriteFailures
from monitor.web.health import readiness
from monitor.web.views.log_positions import LogPosition, LogPositions
from monitor.web.views.view import NoParameters, ViewSources, view


class CheckView(Struct, frozen=True, kw_only=True):
    """One readiness check; ``detail`` is one sentence for an operator."""

    name: str
    ok: bool
    detail: str


class FailingRule(Struct, frozen=True, kw_only=True):
    """A rule that cannot be evaluated."""

    name: str
    error: str  # what it last raised
    failures: int  # since the start


class MonitorView(Struct, frozen=True, kw_only=True):
    """The daemon. Instants are ours."""

    version: str
    python: str
    store_schema: int
    config_hash: str
    started_at: datetime
    running_seconds: float
    ready: bool
    checks: tuple[CheckView, ...]
    rules: int
    failing_rules: tuple[FailingRule, ...]
    learned_limits: int  # of how long runs take
    learned_gaps: int  # between successes


@view(
    "monitor", "/api/v1/monitor", "The daemon itself: versions, readiness and rules.", is_whole=True
)
async def monitor_view(sources: ViewSources, _: NoParameters) -> MonitorView:
    status, alerting = sources.daemon(), sources.alerting.snapshot()
    found = await readiness(sources.checks())
    return MonitorView(
        version=__version__,
        python=platform.python_version(),
        store_schema=status.store_schema,
        config_hash=status.config_hash,
        started_at=status.started_at,
        running_seconds=(sources.clock.now() - status.started_at).total_seconds(),
        ready=found.ready,
        checks=tuple(
            CheckView(name=name, ok=finding.ok, detail=finding.detail)
            for name, finding in found.checks.items()
        ),
        rules=len(alerting.rules),
        failing_rules=tuple(
            FailingRule(name=name, error=error, failures=alerting.failures.get(name, 0))
            for name, error in sorted(alerting.failing_rules.items())
        ),
        learned_limits=len(alerting.limits),
        learned_gaps=len(alerting.cadences),
    )


class StoreView(Struct, frozen=True, kw_only=True):
    """The store. Instants are ours.

    ``events`` is the length of the log, ``callbacks_waiting`` is of the inbox, both of the shards
    that this daemon holds; the oldest and the newest event are of the whole store.
    """

    store_bytes: int
    events: int
    oldest_event_at: datetime | None
    newest_event_at: datetime | None
    callbacks_waiting: int
    write_failures: WriteFailures | None  # the newest; None: none since the start
    events_kept_seconds: float
    events_kept: int
    events_hard_cap: int
    runs_kept_seconds: float


@view(
    "store",
    "/api/v1/monitor/store",
    "The store: its size, how far it reaches back, and whether it takes writes.",
    is_whole=True,
)
async def store_view(sources: ViewSources, _: NoParameters) -> StoreView:
    statuses = [await shard.bus.status() for shard in sources.shards.hosted()]
    retention = sources.daemon().retention
    failures = [found for status in statuses if (found := status.write_failures) is not None]
    return StoreView(
        store_bytes=max((status.store_bytes for status in statuses), default=0),
        events=sum(status.newest_position - status.oldest_position + 1 for status in statuses),
        oldest_event_at=await _recorded_after(sources, LogPosition({})),
        newest_event_at=await _recorded_after(
            sources, await LogPositions(sources.log, clock=sources.clock).last(1)
        ),
        callbacks_waiting=sum(sum(status.inbox.values()) for status in statuses),
        write_failures=max(failures, key=_is_worse, default=None),
        events_kept_seconds=retention.events_seconds,
        events_kept=retention.events_count,
        events_hard_cap=retention.events_hard_cap,
        runs_kept_seconds=retention.runs_seconds,
    )


async def _recorded_after(sources: ViewSources, position: LogPosition) -> datetime | None:
    recorded = await sources.log.events(position.by_shard, limit=1)
    return recorded[0].event.recorded_at if recorded else None


def _is_worse(failures: WriteFailures) -> tuple[bool, datetime]:
    return not failures.is_over, failures.since
