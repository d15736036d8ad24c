"""What a rule kind is: its inputs, its answer, its definition. Pure data.

A rule kind is one module of its name. Its ``DEFINITION`` holds everything about it; `table`,
`check`, the reference of settings and the documentation are made from these definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.templates import COMMON_FIELDS
from monitor.model.alerts import BRIDGE, Severity
from monitor.model.events import Event, EventType
from monitor.model.runs import Pipeline, RunKey, RunKind

M = TypeVar("M", bound=Struct)
F = TypeVar("F")

MINUTE = 60.0
DAY = 86_400.0

PIPELINE_REMOVED = "pipeline removed"  # why an alert is over

# The fields of ``match`` that apply: to runs, to flows and plans as such, to what has no pipeline.
MATCH_RUNS = ("workspace", "kind", "pipeline", "folder", "owner", "trigger")
MATCH_PIPELINES = ("workspace", "kind", "pipeline", "folder", "owner")
MATCH_WORKSPACES = ("workspace",)
ROOT_KINDS = (RunKind.FLOW_RUN, RunKind.PLAN_RUN)  # stand for the flow and the plan as such

# An outage of the workspace hides what these rules would see, or is what causes it; the daemon
# that lags behind sees it too late.
OUTAGES = (RuleKind.WORKSPACE_UNREACHABLE, RuleKind.MONITOR_DEGRADED)


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


Facts = dict[str, str | float | None]


class Firing(Struct, frozen=True, kw_only=True, gc=False):
    """True since ``since``, as of ``as_of``; both by the clock of the subject."""

    since: datetime
    as_of: datetime
    evidence: tuple[str, ...] = ()
    run: RunKey | None = None
    facts: Facts = {}
    preexisting: bool = False


class Ok(Struct, frozen=True, kw_only=True, gc=False):
    """False, or no longer true, since ``at``. With a ``reason`` it never will be again."""

    at: datetime
    evidence: tuple[str, ...] = ()
    reason: str | None = None


class Unknown(Struct, frozen=True, kw_only=True, gc=False):
    """Cannot be decided now; an alert stays as it is."""

    why: str


EvaluationResult = Firing | Ok | Unknown


class RuleAnswer(Struct, Generic[M], frozen=True, kw_only=True):
    """``memory`` None keeps nothing. ``again_at``: evaluate again when the clock has reached it."""

    result: EvaluationResult | None
    memory: M | None = None
    again_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInput(Generic[F]):
    """One event, its subject, and the live state of that."""

    event: Event
    subject: Subject
    root_run: RunKey | None
    facts: F


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInput(Generic[F]):
    """The live state of one subject as of ``as_of``; None: not known yet."""

    subject: Subject
    as_of: datetime | None
    facts: F
    first_evaluated_at: datetime | None  # None: this is the rule's first evaluation


class NoMemory(Struct, frozen=True):
    """The memory of a rule kind that keeps none."""


class Quantity(Struct, frozen=True, kw_only=True):
    """One number of a rule. ``default`` None: it is learned where it is not set."""

    about: str
    default: float | None
    least: float
    most: float
    is_count: bool = False  # from 1 on; a value below is a ratio

    def value(self, configured: float | None) -> float:
        """Return what is set, else the default; 0 where that is learned."""
        return configured or self.default or 0.0

    def accepts(self, value: float) -> bool:
        is_whole = not self.counts(value) or value == int(value)
        return self.least <= value <= self.most and is_whole

    def counts(self, value: float) -> bool:
        """True where the value is a number of things."""
        return self.is_count and value >= 1


def seconds(about: str, default: float | None, *, most: float = 30 * DAY) -> Quantity:
    return Quantity(about=about, default=default, least=1, most=most)


class Requirement(Struct, frozen=True, kw_only=True):
    """What a workspace's configuration needs, or the rule has no data there."""

    table: str  # below [[workspaces]]
    key: str = ""  # that must be true; empty: the table must exist
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDefinition(Generic[M, F]):
    """One kind of rule. Both functions are pure and total."""

    rule: RuleKind
    subject_kind: SubjectKind
    memory: type[M]
    event_types: Collection[EventType] = ()
    on_event: Callable[[EventInput[F], M | None, RuleSettings], RuleAnswer[M]] | None = None
    evaluate: Callable[[StateInput[F], M | None, RuleSettings], RuleAnswer[M]] | None = None
    considers_past: bool = False  # failures from before its first evaluation count as well

    about: str = ""  # one sentence for the documentation: when it fires
    is_default: bool = True  # part of the rules without configuration
    severity: Severity = Severity.WARNING
    summary: str = ""
    description: str = ""
    for_seconds: float = 0.0
    template_fields: tuple[str, ...] = ()  # its own, beside those of every alert
    match: tuple[str, ...] = ()  # the fields of ``match`` that apply
    run_kinds: tuple[RunKind, ...] = tuple(RunKind)  # that ``match.kind`` can ask for
    threshold: Quantity | None = None
    window: Quantity | None = None
    minimum: Quantity | None = None
    requires: Requirement | None = None
    may_expect: bool = False  # ``expect`` and its time zone apply

    inhibited_by: tuple[RuleKind, ...] = ()
    # It reports what somebody saw happen: these hold back its reminders and nothing else.
    reminders_inhibited_by: tuple[RuleKind, ...] = ()
    inhibits: Collection[RuleKind] = ()  # `table` makes it from the two above
    not_recorded: str = ""  # why a backtest cannot evaluate it; empty where it can

    @property
    def annotation_fields(self) -> tuple[str, ...]:
        """Return every field that an annotation may name."""
        return (*COMMON_FIELDS, *self.template_fields)


AnyRuleDefinition = RuleDefinition[Any, Any]
