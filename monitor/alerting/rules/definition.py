"""The definition of a rule kind. Pure data.

A rule kind is one module of its name. Its ``DEFINITION`` holds everything about it; `table`,
`check`, the reference of settings and the documentation are made from these definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from msgspec import Struct

from monitor.alerting.rules.contract import EventInput, StateInput, SubjectKind
from monitor.alerting.rules.results import RuleAnswer
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alert_texts import COMMON_FIELDS
from monitor.model.alerts import Severity
from monitor.model.events import EventType
from monitor.model.runs import RunKind

M = TypeVar("M", bound=Struct)
F = TypeVar("F")

MINUTE = 60.0
DAY = 86_400.0

# An outage of the workspace hides what these rules would see, or is what causes it; the daemon
# that lags behind sees it too late.
OUTAGES = (RuleKind.WORKSPACE_UNREACHABLE, RuleKind.MONITOR_DEGRADED)


_RUN_FIELDS = ("workspace", "kind", "pipeline", "folder", "owner", "trigger")
_PIPELINE_FIELDS = ("workspace", "kind", "pipeline", "folder", "owner")
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
