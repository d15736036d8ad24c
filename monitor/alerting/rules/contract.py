"""What conditions are asked and what they answer. Pure data."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.model.alerts import BRIDGE
from monitor.model.events import Event, EventType
from monitor.model.runs import Pipeline, RunKey, RunKind

M = TypeVar("M", bound=Struct)
F = TypeVar("F")

PIPELINE_REMOVED = "pipeline removed"  # why an alert is over


class SubjectKind(StrEnum):
    """What a rule looks at; each has its own facts and its own clock."""

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
        told = {
            "workspace": self.workspace,
            "kind": self.kind or "",
            "pipeline_id": "" if self.pipeline is None else self.pipeline.id,
            "about": self.subject_kind,
            "thing": self.thing,
        }
        return {name: value for name, value in told.items() if value}


class Firing(Struct, frozen=True, kw_only=True, gc=False):
    """It is so since ``since``, as of ``as_of``. Both on the clock of what is judged."""

    since: datetime
    as_of: datetime
    evidence: tuple[str, ...] = ()
    run: RunKey | None = None
    facts: dict[str, str | float | None] = {}
    preexisting: bool = False


class Ok(Struct, frozen=True, kw_only=True, gc=False):
    """It is not so (any more), since ``at``. With a ``reason`` it never will be again."""

    at: datetime
    evidence: tuple[str, ...] = ()
    reason: str | None = None


class Unknown(Struct, frozen=True, kw_only=True, gc=False):
    """Nobody can tell now; an episode stays as it is."""

    why: str


Verdict = Firing | Ok | Unknown


class RuleAnswer(Struct, Generic[M], frozen=True, kw_only=True):
    """``memory`` None keeps nothing. ``again_at``: look again when the clock has come so far."""

    result: Verdict | None
    memory: M | None = None
    again_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInput(Generic[F]):
    """One event, whom it concerns, and what is known of that."""

    event: Event
    subject: Subject
    root_run: RunKey | None
    facts: F
    first_evaluated_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInput(Generic[F]):
    """One look at the present of one subject as of ``as_of``; None: not known yet."""

    subject: Subject
    as_of: datetime | None
    facts: F
    first_evaluated_at: datetime | None  # None: this is the first look this rule takes


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDefinition(Generic[M, F]):
    """One kind of rule. Both functions are pure and total."""

    rule: RuleKind
    subject_kind: SubjectKind
    memory: type[M]
    event_types: Collection[EventType] = ()
    on_event: Callable[[EventInput[F], M | None, RuleSettings], RuleAnswer[M]] | None = None
    evaluate: Callable[[StateInput[F], M | None, RuleSettings], RuleAnswer[M]] | None = None
    template_fields: tuple[str, ...] = ()
    inhibits: Collection[RuleKind] = field(default=())
    considers_past: bool = False  # what had failed before it is judged first is heard once as well


AnyRuleDefinition = RuleDefinition[Any, Any]
