"""The input of a rule: its subject, the facts of that, earlier results. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from monitor.bus.contract import Retention, StoreStatus
from monitor.model.alerts import BRIDGE, DaemonCondition
from monitor.model.ends import RunEnd, run_end
from monitor.model.events import RunEvent
from monitor.model.inventory import OutputQuality
from monitor.model.live_state import (
    ActiveRun,
    PipelineHealth,
    PollStatus,
    ScheduleKnown,
    TokenTrouble,
    WorkspaceStatus,
)
from monitor.model.runs import Pipeline, RunKey, RunKind

F = TypeVar("F")

PIPELINE_REMOVED = "pipeline removed"  # why an alert is over


class SubjectKind(StrEnum):
    """What a rule evaluates; each has its own facts and its own clock."""

    PIPELINE = "pipeline"  # the runs of one kind of a flow or plan
    FLOW_OR_PLAN = "flow_or_plan"  # a flow or plan as such, whatever kind of run executes it
    SCHEDULE = "schedule"
    OUTPUT = "output"
    TOKEN = "token"  # noqa: S105 - a thing
    WORKSPACE = "workspace"
    DAEMON = "daemon"


class Subject(Struct, frozen=True, kw_only=True, gc=False):
    """What an alert is about. ``thing`` is the id of a schedule, output, token, consumer."""

    subject_kind: SubjectKind
    workspace: str = BRIDGE
    kind: RunKind | None = None
    pipeline: Pipeline | None = None
    thing: str = ""

    def identity(self) -> dict[str, str]:
        """Return what sets it apart from every other subject, without empty values."""
        parts = {
            "workspace": self.workspace,
            "kind": self.kind or "",
            "pipeline_id": "" if self.pipeline is None else self.pipeline.id,
            "about": self.subject_kind,
            "thing": self.thing,
        }
        return {name: value for name, value in parts.items() if value}


# What is known of a subject when a rule is evaluated: snapshots, handed in by the engine.


class PipelineFacts(Struct, frozen=True, kw_only=True):
    """One pipeline and kind of run."""

    active: tuple[ActiveRun, ...] = ()  # the runs of this subject that have not ended
    limit: float | None = None  # seconds that a run may take, learned
    at_work: frozenset[RunKey] = frozenset()  # runs around an active one, or perhaps around one


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
    """``expires_at`` None: the workspace no longer lists it. Past ``until`` nothing is known.

    ``trouble`` is of a pair that the daemon refreshes; ``expires_at`` is then its access token's.
    """

    expires_at: datetime | None
    created_at: datetime | None = None
    until: datetime | None
    trouble: TokenTrouble | None = None


class WorkspaceFacts(Struct, frozen=True, kw_only=True):
    """``late`` are the polls that have not succeeded for too long, whatever clocks were set."""

    status: WorkspaceStatus
    polls: tuple[PollStatus, ...] = ()
    late: frozenset[str] = frozenset()


class DaemonFacts(Struct, frozen=True, kw_only=True):
    """The store, and what is wrong with the daemon and its cluster."""

    bus: StoreStatus
    retention: Retention
    condition: DaemonCondition = DaemonCondition()


class EventInput(Struct, frozen=True, kw_only=True, gc=False):
    """One event of a run, and the root run of it: that run itself, or what contains it.

    ``root_succeeded``: the root run is known to have ended well. ``cleared``: the event is the
    success of a run that contains these, and counts for them alone.
    """

    event: RunEvent
    root_run: RunKey
    root_succeeded: bool = False
    cleared: frozenset[RunKey] = frozenset()
    end: RunEnd | None = None  # of the run; made from the event, once for all rules

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "end", run_end(self.event.run))

    @property
    def is_own(self) -> bool:
        """True where it is an event of the root run itself, not of something inside it."""
        return self.root_run == self.event.run.key

    @property
    def at(self) -> datetime:
        # Both stand in the event, so that what is made of it is the same after a crash.
        return self.event.occurred_at or self.event.recorded_at


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInput(Generic[F]):
    """The live state of one subject as of ``as_of``; None: not known yet.

    ``wall_now`` is our wall clock, which stamps events; None: the clock of the rules.
    """

    subject: Subject
    as_of: datetime | None
    facts: F
    first_evaluated_at: datetime | None  # None: this is the rule's first evaluation
    wall_now: datetime | None = None

    def steady(self, at: datetime) -> datetime:
        """Return a past instant of our wall clock by the clock of the rules."""
        if self.as_of is None or self.wall_now is None:
            return at
        return min(self.as_of, self.as_of - (self.wall_now - at))
