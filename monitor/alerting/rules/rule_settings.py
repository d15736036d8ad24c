"""What can be set about a rule."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from monitor.model.alerts import Severity


class RuleKind(StrEnum):
    """The list of rule kinds, in the order of the documentation.

    Each is defined by the module of its value in `monitor.alerting.rules`.
    """

    RUN_FAILED = "run_failed"
    RUN_OVERDUE = "run_overdue"
    RUN_STUCK = "run_stuck"
    QUEUE_SLOW = "queue_slow"
    SCHEDULE_MISSED = "schedule_missed"
    SCHEDULE_DISABLED = "schedule_disabled"
    NOT_FRESH = "not_fresh"
    FAILING_REPEATEDLY = "failing_repeatedly"
    CANCELED = "canceled"
    RUN_LOST = "run_lost"
    SUCCESS_DOUBTED = "success_doubted"
    WORKSPACE_UNREACHABLE = "workspace_unreachable"
    TOKEN_EXPIRING = "token_expiring"  # noqa: S105 - a rule
    CALLBACKS_MISSED = "callbacks_missed"
    QUALITY_DROPPED = "quality_dropped"
    BUDGET_EXHAUSTED = "budget_exhausted"
    MONITOR_DEGRADED = "monitor_degraded"


class Match(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a rule is about. Globs; several of one field mean any, several fields mean all.

    One that begins with ``!`` excludes what it matches.
    """

    workspace: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    pipeline: tuple[str, ...] = ()  # the name, or the id
    folder: tuple[str, ...] = ()
    owner: tuple[str, ...] = ()
    trigger: tuple[str, ...] = ()


class RuleSettings(Struct, frozen=True, kw_only=True):
    """One rule as it is evaluated: the defaults of its kind and what was configured on top."""

    name: str
    rule: RuleKind
    match: Match = Match()
    threshold: float = 0.0  # its meaning and default are the kind's; 0 where it is learned
    window_seconds: float = 0.0
    minimum: int = 0
    for_seconds: float = 0.0
    severity: Severity = Severity.WARNING
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    repeat_seconds: float = 4 * 3_600.0
    mute: tuple[str, ...] = ()
    # When runs should start that no visible schedule starts: a Quartz expression, of its zone.
    expect: str | None = None
    expect_timezone: str = "UTC"
    is_enabled: bool = True
