"""What each kind of rule is about, what can be set of it, and the rules without configuration."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from monitor.alerting.settings.rules import Match, RuleKind, RuleSettings
from monitor.alerting.settings.templates import COMMON_FIELDS
from monitor.model.alerts import Severity
from monitor.model.runs import RunKind

DAY = 86_400.0
MINUTE = 60.0


class Quantity(Struct, frozen=True, kw_only=True):
    """One number of a rule. ``default`` None: it is learned where it is not set."""

    about: str
    default: float | None
    least: float
    most: float
    is_count: bool = False  # from 1 on; what is below is a part

    def holds(self, value: float) -> bool:
        is_whole = not self.counts(value) or value == int(value)
        return self.least <= value <= self.most and is_whole

    def counts(self, value: float) -> bool:
        """True where the value is meant as a number of things."""
        return self.is_count and value >= 1


class RuleKindDefaults(Struct, frozen=True, kw_only=True):
    """One kind of rule. What is None or absent here, the kind does not have."""

    about: str  # one sentence: when it fires
    severity: Severity
    summary: str
    description: str
    fields: tuple[str, ...]  # of its own, beside those that every alert has
    match: tuple[str, ...]  # the fields of ``match`` that can say something of it
    kinds: tuple[RunKind, ...] = tuple(RunKind)  # that ``match.kind`` can ask for
    threshold: Quantity | None = None
    window: Quantity | None = None
    minimum: Quantity | None = None
    for_seconds: float = 0.0
    is_on: bool = True  # part of the rules without configuration

    @property
    def template_fields(self) -> tuple[str, ...]:
        return (*COMMON_FIELDS, *self.fields)


_ALL = ("workspace", "kind", "pipeline", "folder", "owner", "trigger")
_PIPELINE = ("workspace", "kind", "pipeline", "folder", "owner")
_ROOT = (RunKind.FLOW_RUN, RunKind.PLAN_RUN)  # stand for the flow and the plan as such
_WORKSPACE = ("workspace",)


def _seconds(about: str, default: float | None, *, most: float = 30 * DAY) -> Quantity:
    return Quantity(about=about, default=default, least=1, most=most)


RULES: Mapping[RuleKind, RuleKindDefaults] = MappingProxyType({
    RuleKind.RUN_FAILED: RuleKindDefaults(
        about="A run failed; over at the next success of the same pipeline.",
        severity=Severity.CRITICAL,
        summary="{pipeline} failed in {workspace}",
        description="Run {run}: {error}",
        fields=("error", "run", "failing"),
        match=_ALL,
    ),
    RuleKind.RUN_OVERDUE: RuleKindDefaults(
        about="A run lasts longer than a limit, or than runs of its pipeline ever need.",
        severity=Severity.WARNING,
        summary="{pipeline} runs for too long in {workspace}",
        description="Run {run} is at {running_seconds:duration}, and "
        "{limit_seconds:duration} is the limit.",
        fields=("run", "running_seconds", "limit_seconds"),
        match=_ALL,
        threshold=_seconds("seconds from its start; without it the limit is learned", None),
        minimum=Quantity(about="runs that a limit is learned from", default=10, least=10, most=200),
    ),
    RuleKind.RUN_STUCK: RuleKindDefaults(
        about="A run neither ends nor shows progress or a heartbeat; waiting ones have four times "
        "as long.",
        severity=Severity.WARNING,
        summary="{pipeline} makes no progress in {workspace}",
        description="Run {run} has shown no sign for {stuck_seconds:duration}.",
        fields=("run", "stuck_seconds", "percent_complete"),
        match=_ALL,
        threshold=_seconds("seconds without a sign while executing", 15 * MINUTE),
    ),
    RuleKind.QUEUE_SLOW: RuleKindDefaults(
        about="A run waits too long before it starts.",
        severity=Severity.WARNING,
        summary="{pipeline} waits too long in {workspace}",
        description="Run {run} has waited {waiting_seconds:duration} for its start.",
        fields=("run", "waiting_seconds"),
        match=_ALL,
        threshold=_seconds("seconds from creation to start", 10 * MINUTE),
    ),
    RuleKind.SCHEDULE_MISSED: RuleKindDefaults(
        about="A schedule should have fired, and no run came within grace.",
        severity=Severity.CRITICAL,
        summary="{pipeline} did not start in {workspace}",
        description="Schedule {schedule} was due at {expected_at:time}, and no run came.",
        fields=("schedule", "expected_at", "missed"),
        match=_PIPELINE,
        kinds=_ROOT,
        threshold=_seconds("seconds of grace after the expected time", 10 * MINUTE),
    ),
    RuleKind.SCHEDULE_DISABLED: RuleKindDefaults(
        about="A schedule that was enabled is so no longer.",
        severity=Severity.WARNING,
        summary="Schedule {schedule} was disabled in {workspace}",
        description="It starts {pipeline}; reason: {reason}",
        fields=("schedule", "reason"),
        match=_PIPELINE,
        kinds=_ROOT,
    ),
    RuleKind.NOT_FRESH: RuleKindDefaults(
        about="A pipeline has not succeeded for longer than a time, or than it ever needs.",
        severity=Severity.WARNING,
        summary="{pipeline} has no fresh result in {workspace}",
        # Also where it has never succeeded since it is followed.
        description="No success for {age_seconds:duration}; "
        "{limit_seconds:duration} is the limit.",
        fields=("last_success_at", "age_seconds", "limit_seconds"),
        match=_PIPELINE,
        kinds=_ROOT,
        threshold=_seconds(
            "seconds since the last success; without it three times its own cadence", None,
            most=400 * DAY,
        ),
        minimum=Quantity(
            about="successes that a cadence is learned from", default=10, least=10, most=200
        ),
    ),
    RuleKind.FAILING_REPEATEDLY: RuleKindDefaults(
        about="A pipeline failed so often in a row, or so large a part of its last runs.",
        severity=Severity.CRITICAL,
        summary="{pipeline} keeps failing in {workspace}",
        description="{failures} of the last {ends} runs failed, the last with: {error}",
        fields=("failures", "ends", "ratio", "error", "run"),
        match=_ALL,
        threshold=Quantity(
            about="1 and more: failures in a row; below 1: the failed part of the last runs, over "
            "at half of it",
            default=3,
            least=0.01,
            most=20,
            is_count=True,
        ),
        window=None,
        minimum=Quantity(about="runs that a part is taken of", default=4, least=2, most=20),
    ),
    RuleKind.CANCELED: RuleKindDefaults(
        about="A run was canceled; over when one of the same pipeline ends otherwise.",
        severity=Severity.INFO,
        summary="{pipeline} was canceled in {workspace}",
        description="Run {run} of {owner} was canceled.",
        fields=("run", "owner"),
        match=_ALL,
        is_on=False,  # people cancel on purpose
    ),
    RuleKind.WORKSPACE_UNREACHABLE: RuleKindDefaults(
        about="A workspace does not answer, refuses our token, or a list of its runs fails.",
        severity=Severity.CRITICAL,
        summary="{workspace} cannot be asked",
        description="{reason}",
        fields=("reason",),
        match=_WORKSPACE,
        for_seconds=2 * MINUTE,
    ),
    RuleKind.TOKEN_EXPIRING: RuleKindDefaults(
        about="An access token of the workspace expires soon.",
        severity=Severity.WARNING,
        summary="A token of {workspace} expires in {remaining_seconds:duration}",
        description="Token {token} expires at {expires_at:time}.",
        fields=("token", "expires_at", "remaining_seconds"),
        match=_WORKSPACE,
        threshold=_seconds("seconds before it expires", 14 * DAY, most=400 * DAY),
    ),
    RuleKind.CALLBACKS_MISSED: RuleKindDefaults(
        about="Callbacks that should have come keep staying away.",
        severity=Severity.WARNING,
        summary="Callbacks of {workspace} stay away",
        description="{missed} callbacks did not come; polls told those runs instead, later.",
        fields=("missed",),
        match=_WORKSPACE,
        threshold=Quantity(
            about="callbacks within the window", default=3, least=1, most=100_000, is_count=True
        ),
        window=Quantity(
            about="that callbacks are counted in", default=3_600, least=60, most=7 * DAY
        ),
    ),
    RuleKind.QUALITY_DROPPED: RuleKindDefaults(
        about="The valid part of an output's values fell below what is usual for it.",
        severity=Severity.WARNING,
        summary="The quality of {output} dropped in {workspace}",
        description="{valid_ratio:percent} of the values of {output} ({pipeline}) are valid; "
        "{usual_ratio:percent} is usual.",
        fields=("output", "valid_ratio", "usual_ratio"),
        match=("workspace", "pipeline", "folder", "owner"),
        threshold=Quantity(about="how much less, of 1", default=0.1, least=0.001, most=1),
        minimum=Quantity(about="profiles that usual is learned from", default=5, least=2, most=20),
    ),
    RuleKind.BUDGET_EXHAUSTED: RuleKindDefaults(
        about="The requests that a workspace or our own settings allow are used up.",
        severity=Severity.WARNING,
        summary="Requests to {workspace} run short",
        description="Late for want of requests: {polls}. Left: {remaining} of {limit} ({scope}).",
        fields=("scope", "remaining", "limit", "polls"),
        match=_WORKSPACE,
        for_seconds=10 * MINUTE,
    ),
    RuleKind.MONITOR_DEGRADED: RuleKindDefaults(
        about="An output lags, gave events up, or the store is near its cap.",
        severity=Severity.CRITICAL,
        summary="The monitor itself is in trouble: {what}",
        description="{reason}",
        fields=("what", "reason"),
        match=(),
        threshold=_seconds("seconds that an output may lag", 5 * MINUTE),
        for_seconds=MINUTE,
    ),
})  # fmt: skip


def default_rule(kind: RuleKind) -> RuleSettings:
    """Return the rule of that kind as it is where nothing is configured."""
    defaults = RULES[kind]
    return RuleSettings(
        name=kind.value,
        rule=kind,
        match=Match(),
        threshold=_default(defaults.threshold),
        window_seconds=_default(defaults.window) or 0.0,
        minimum=int(_default(defaults.minimum) or 0),
        for_seconds=defaults.for_seconds,
        severity=defaults.severity,
        annotations={"summary": defaults.summary, "description": defaults.description},
    )


def threshold_of(rule: RuleSettings) -> float:
    """Return what is set, else the default of its kind; 0 where that one is learned."""
    return rule.threshold or _default(RULES[rule.rule].threshold) or 0.0


def minimum_of(rule: RuleSettings) -> int:
    """Return what is set, else the default of its kind."""
    return rule.minimum or int(_default(RULES[rule.rule].minimum) or 0)


def _default(quantity: Quantity | None) -> float | None:
    return None if quantity is None else quantity.default


DEFAULT_RULES: tuple[RuleSettings, ...] = tuple(
    default_rule(kind) for kind, defaults in RULES.items() if defaults.is_on
)


def combined(own: tuple[RuleSettings, ...], *, with_defaults: bool) -> tuple[RuleSettings, ...]:
    """Return the rules at work: a configured one replaces the default of its name.

    A configured rule that is not enabled is not there, nor is the default that it replaces.
    """
    held = {rule.name: rule for rule in DEFAULT_RULES} if with_defaults else {}
    held.update((rule_settings.name, rule_settings) for rule_settings in own)
    return tuple(item for item in held.values() if item.is_enabled)
