"""The contract of rules: the input of one, its result, and the definition of its kind. Pure data.

A rule kind is one module of its name. Its ``DEFINITION`` holds everything about it; `table`,
`check`, the reference of settings and the documentation are made from these definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.bus.contract import Retention, StoreStatus
from monitor.model.alert_texts import COMMON_FIELDS
from monitor.model.alerts import BRIDGE, DaemonCondition, Severity
from monitor.model.ends import RunEnd, run_end
from monitor.model.events import EventType, RunEvent
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
M = TypeVar("M", bound=Struct)
Facts = dict[str, str | float | None]  # what a result gives to the texts of its alert
MINUTE = 60.0
DAY = 86_400.0
# An outage of the workspace hides what these rules would see, or is what causes it; the daemon
# that lags behind sees it too late.
OUTAGES = (RuleKind.WORKSPACE_UNREACHABLE, RuleKind.MONITOR_DEGRADED)
_RUN_FIELDS = ("workspace", "kind", "pipeline", "folder", "owner", "trigger")
_PIPELINE_FIELDS = ("workspace", "kind", "pipeline", "folder", "owner")


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
    usual_seconds: float | None = None  # that a run takes, learned
    ends_known_until: datetime | None = None  # of all its kinds of runs; None: as of the evaluation
    is_deleted: bool = False  # by a schedule that names it, or by the list of pipelines


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


class Firing(Struct, frozen=True, kw_only=True, gc=False):
    """True since ``since``, as of ``as_of``; both by the clock of the subject."""

    since: datetime
    as_of: datetime
    evidence: tuple[str, ...] = ()
    run: RunKey | None = None
    facts: Facts = {}
    preexisting: bool = False


class OverWhenSeen(Struct, frozen=True, kw_only=True, gc=False):
    """Was true from ``since`` to ``until``, and over before it was observed.

    ``is_known``: ``run`` was known to have failed, by a part of it, so there was an alert about it.
    """

    since: datetime
    until: datetime
    evidence: tuple[str, ...] = ()
    run: RunKey | None = None
    facts: Facts = {}
    is_known: bool = False


class Ok(Struct, frozen=True, kw_only=True, gc=False):
    """False, or no longer true, since ``at``. With a ``reason`` it never will be again."""

    at: datetime
    evidence: tuple[str, ...] = ()
    reason: str | None = None


class Unknown(Struct, frozen=True, gc=False):
    """Cannot be decided now; an alert stays as it is."""

    why: str


EvaluationResult = Firing | OverWhenSeen | Ok | Unknown


class DeadlineMet(Struct, frozen=True, kw_only=True):
    """A deadline that a success has met, to be published. ``day`` is by the deadline's zone."""

    day: date
    at: datetime
    ended_at: datetime


class RuleAnswer(Struct, Generic[M], frozen=True):
    """``memory`` None keeps nothing. ``again_at``: evaluate again when the clock has reached it.

    ``met`` are deadlines whose events are stored in the same step as the memory.
    """

    result: EvaluationResult | None
    memory: M | None = None
    again_at: datetime | None = None
    met: tuple[DeadlineMet, ...] = ()


# The fields of ``match`` that apply.
_MATCH_FIELDS = {
    SubjectKind.PIPELINE: _RUN_FIELDS,
    SubjectKind.FLOW_OR_PLAN: _PIPELINE_FIELDS,
    SubjectKind.SCHEDULE: _PIPELINE_FIELDS,
    SubjectKind.OUTPUT: ("workspace", "pipeline", "folder", "owner"),
    SubjectKind.TOKEN: ("workspace",),
    SubjectKind.WORKSPACE: ("workspace",),
    SubjectKind.DAEMON: (),
}


class NoMemory(Struct, frozen=True):
    """The memory of a rule kind that keeps none."""


class Quantity(Struct, frozen=True, kw_only=True):
    """One number of a rule. ``default`` None: it is learned where it is not set."""

    about: str
    default: float | None
    least: float
    most: float
    is_count: bool = False  # from 1 on; a value below is a ratio

    def problem(self, value: float) -> str | None:
        """Return what the value must be; None where it is valid."""
        if not self.least <= value <= self.most:
            return f"must be {self.least:,.10g} to {self.most:,.10g}"
        if self.is_count and value >= 1 and value != int(value):
            return f"must be whole from 1 on, such as {round(value)},"
        return None


def seconds(about: str, default: float | None, *, most: float = 30 * DAY) -> Quantity:
    return Quantity(about=about, default=default, least=1, most=most)


class Requirement(Struct, frozen=True, kw_only=True):
    """What a workspace's configuration needs, or the rule has no data there."""

    table: str  # below [[workspaces]]
    key: str = ""  # that must be true; empty: the table must exist
    other_table: str = ""  # that does as well
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDefinition(Generic[M, F]):
    """One kind of rule. Both functions are pure and total."""

    rule: RuleKind
    subject_kind: SubjectKind
    memory: type[M]
    event_types: Collection[EventType] = ()
    on_event: Callable[[EventInput, M | None, RuleSettings], RuleAnswer[M]] | None = None
    evaluate: Callable[[StateInput[F], M | None, RuleSettings], RuleAnswer[M]] | None = None
    keeps_ends: bool = False  # successes as well, so that a failure that is seen late is over
    needs_memory: bool = False  # without one it neither finds nor remembers anything by events
    considers_past: bool = False  # failures from before its first evaluation count as well

    about: str = ""  # one sentence for the documentation: when it fires
    is_default: bool = True  # part of the rules without configuration
    severity: Severity = Severity.WARNING
    summary: str = ""
    description: str = ""
    for_seconds: float = 0.0
    template_fields: tuple[str, ...] = ()  # its own, beside those of every alert
    threshold: Quantity | None = None
    window: Quantity | None = None
    minimum: Quantity | None = None
    requires: Requirement | None = None
    may_expect: bool = False  # ``expect`` and its time zone apply
    has_deadline: bool = False  # it needs ``deadline``, and all that belongs to it applies

    inhibited_by: tuple[RuleKind, ...] = ()
    # It reports an observed fact: these hold back its reminders and nothing else.
    reminders_inhibited_by: tuple[RuleKind, ...] = ()
    inhibits: Collection[RuleKind] = ()  # `table` makes it from the two above
    not_recorded: str = ""  # why a backtest cannot evaluate it; empty where it can

    @property
    def match_fields(self) -> tuple[str, ...]:
        """Return the fields of ``match`` that apply."""
        return _MATCH_FIELDS[self.subject_kind]

    @property
    def run_kinds(self) -> tuple[RunKind, ...]:
        """Return what ``match.kind`` can ask for; root runs stand for flows and plans as such."""
        is_about_runs = self.subject_kind is SubjectKind.PIPELINE
        return tuple(RunKind) if is_about_runs else (RunKind.FLOW_RUN, RunKind.PLAN_RUN)

    @property
    def annotation_fields(self) -> tuple[str, ...]:
        """Return every field that an annotation may name."""
        return (*COMMON_FIELDS, *self.template_fields)


AnyRuleDefinition = RuleDefinition[Any, Any]
