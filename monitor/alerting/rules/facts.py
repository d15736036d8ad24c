"""What is known of a subject when a rule is evaluated. Snapshots, handed in by the engine."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.bus.contract import Retention, StoreStatus
from monitor.model.inventory import OutputQuality
from monitor.model.live_state import (
    ActiveRun,
    PipelineHealth,
    PollStatus,
    ScheduleKnown,
    WorkspaceStatus,
)


class PipelineFacts(Struct, frozen=True, kw_only=True):
    """One pipeline and kind of run. ``limit`` and ``cadence`` are seconds, learned, or None."""

    pipeline_health: tuple[PipelineHealth, ...] = ()  # one per recipe for job groups
    active: tuple[ActiveRun, ...] = ()  # the runs of this subject that have not ended
    limit: float | None = None
    cadence: float | None = None


class FlowOrPlanFacts(Struct, frozen=True, kw_only=True):
    """One flow or plan as such. All instants are the workspace's.

    ``schedules`` are those that start it, as far as the token may see them.
    """

    schedules: tuple[ScheduleKnown, ...] = ()
    schedules_read_at: datetime | None = None
    schedules_read_before: datetime | None = None
    pipeline_health: tuple[PipelineHealth, ...] = ()  # by kind of run, of job groups by recipe
    active: tuple[ActiveRun, ...] = ()
    cadence: float | None = None  # seconds between two successes, learned
    is_deleted: bool = False  # by what a schedule that names it shows


class ScheduleFacts(Struct, frozen=True, kw_only=True):
    """One schedule. ``schedule`` is None once the workspace no longer lists it."""

    schedule: ScheduleKnown | None
    read_at: datetime | None  # workspace time of the last complete read of the schedules


class OutputFacts(Struct, frozen=True, kw_only=True):
    quality: OutputQuality | None


class TokenFacts(Struct, frozen=True, kw_only=True):
    """``expires_at`` None: the workspace no longer lists it. Past ``until`` nothing is known."""

    expires_at: datetime | None
    until: datetime | None


class WorkspaceFacts(Struct, frozen=True, kw_only=True):
    status: WorkspaceStatus
    polls: tuple[PollStatus, ...] = ()


class DaemonFacts(Struct, frozen=True, kw_only=True):
    """``wall_now`` is our wall clock, which stamps events; None: the clock of the rules."""

    bus: StoreStatus
    retention: Retention
    wall_now: datetime | None = None
