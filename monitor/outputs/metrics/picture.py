"""One frozen look at everything that the metrics page shows, taken on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

import structlog
from msgspec import Struct

from monitor.bus.contract import BusStanding, EventBus
from monitor.model.alerts import AlertingPicture
from monitor.model.errors import BusUnavailableError
from monitor.model.knowledge import (
    ActiveRun,
    NamedPipeline,
    PipelineStanding,
    PollStanding,
    WorkspaceStanding,
)
from monitor.model.runs import RunKind
from monitor.outputs.metrics.rows import Row, Seen
from monitor.tracking.knowledge import KnowledgeView

log = structlog.get_logger()


class ConfigurationStanding(Struct, frozen=True, kw_only=True):
    """Which configuration is in force, and whether the one read last is that one."""

    hash: str
    is_newest: bool = True


class Picture(Struct, frozen=True, kw_only=True):
    """What is known, counted and stored at ``now`` (our clock). Nothing in it changes any more."""

    now: datetime
    rows: Mapping[str, Row] = {}
    seen: Mapping[str, Mapping[str, Seen]] = {}
    workspaces: tuple[WorkspaceStanding, ...] = ()
    active: tuple[ActiveRun, ...] = ()
    standings: tuple[PipelineStanding, ...] = ()
    pipelines: tuple[NamedPipeline, ...] = ()
    polls: tuple[PollStanding, ...] = ()
    confirmed: Mapping[tuple[str, RunKind], datetime] = {}
    bus: BusStanding | None = None  # None where the store did not answer in time
    configuration: ConfigurationStanding | None = None
    alerting: AlertingPicture | None = None  # None where nothing judges rules


def picture_of(
    knowledge: KnowledgeView,
    *,
    now: datetime,
    rows: Mapping[str, Row],
    seen: Mapping[str, Mapping[str, Seen]],
    bus: BusStanding | None,
    configuration: ConfigurationStanding | None,
    alerting: AlertingPicture | None,
) -> Picture:
    """Freeze the present. Waits for nothing, so all of it is of one moment."""
    return Picture(
        now=now,
        rows=dict(rows),
        seen=dict(seen),
        workspaces=knowledge.workspaces(),
        active=knowledge.active_runs(),
        standings=knowledge.standings(),
        pipelines=knowledge.pipelines(),
        polls=knowledge.polls(),
        confirmed=knowledge.confirmed(),
        bus=bus,
        configuration=configuration,
        alerting=alerting,
    )


async def standing_of(bus: EventBus, *, timeout_seconds: float) -> BusStanding | None:
    """Ask the store how it stands; None where it does not say so in time."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return await bus.standing()
    except (BusUnavailableError, TimeoutError) as exc:
        log.warning("the store's figures are missing on the metrics page", reason=repr(exc))
        return None
