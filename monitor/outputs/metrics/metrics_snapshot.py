"""A frozen snapshot of everything that the metrics page shows, taken on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

import structlog
from msgspec import Struct

from monitor.bus.contract import EventBus, StoreStatus
from monitor.model.alerts import AlertingSnapshot
from monitor.model.errors import BusUnavailableError
from monitor.model.live_state import (
    ActiveRun,
    NamedPipeline,
    PipelineHealth,
    PollStatus,
    WorkspaceStatus,
)
from monitor.model.runs import RunKind
from monitor.outputs.metrics.counter_rows import CounterRow, RunExemplar
from monitor.tracking.live_state import LiveStateView

log = structlog.get_logger()


class MetricsSnapshot(Struct, frozen=True, kw_only=True):
    """What is known, counted and stored at ``now`` (our clock). Nothing in it changes any more."""

    now: datetime
    rows: Mapping[str, CounterRow] = {}
    seen: Mapping[str, Mapping[str, RunExemplar]] = {}
    workspaces: tuple[WorkspaceStatus, ...] = ()
    active: tuple[ActiveRun, ...] = ()
    pipeline_health: tuple[PipelineHealth, ...] = ()
    pipelines: tuple[NamedPipeline, ...] = ()
    polls: tuple[PollStatus, ...] = ()
    confirmed: Mapping[tuple[str, RunKind], datetime] = {}
    # Of what kinds of runs nothing new is seen.
    unread: frozenset[tuple[str, RunKind]] = frozenset()
    bus: StoreStatus | None = None  # None where the store did not answer in time
    alerting: AlertingSnapshot | None = None  # None where no rules are evaluated


def snapshot_of(
    live_state: LiveStateView,
    *,
    now: datetime,
    rows: Mapping[str, CounterRow],
    seen: Mapping[str, Mapping[str, RunExemplar]],
    bus: StoreStatus | None,
    alerting: AlertingSnapshot | None,
) -> MetricsSnapshot:
    """Freeze the present. Waits for nothing, so all of it is of one moment."""
    workspaces = live_state.workspaces()
    return MetricsSnapshot(
        now=now,
        rows=dict(rows),
        seen=dict(seen),
        workspaces=workspaces,
        active=live_state.active_runs(),
        pipeline_health=live_state.pipeline_health(),
        pipelines=live_state.pipelines(),
        polls=live_state.polls(),
        confirmed=live_state.confirmed(),
        unread=frozenset(
            (status.workspace, kind)
            for status in workspaces
            for kind in RunKind
            if live_state.is_unread(status.workspace, kind)
        ),
        bus=bus,
        alerting=alerting,
    )


async def status_of(bus: EventBus, *, timeout_seconds: float) -> StoreStatus | None:
    """Read the store's figures; None where it does not answer in time."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return await bus.status()
    except (BusUnavailableError, TimeoutError) as exc:
        log.warning("store figures missing on metrics page", reason=repr(exc))
        return None
