"""The settings of a rule."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from monitor.alerting.rules.deadline_settings import (
    EVERY_DAY,
    MIDNIGHT,
    Counts,
    parse_days,
    parse_time,
)
from monitor.model.alerts import Severity
from monitor.model.days_off import DaysOff, parse_date, parse_region
from monitor.model.globs import fits_some, parse_globs
from monitor.model.mute_windows import parse_mute_window, time_zone_problem
from monitor.model.runs import RunKind, Trigger
from monitor.model.settings import Setting, each_readable, problems_of, readable
from monitor.schedules.written_cron import quartz_expression

_NAME = "^[a-z0-9][a-z0-9_-]{0,62}$"


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
    DEADLINE_MISSED = "deadline_missed"
    DEADLINE_AT_RISK = "deadline_at_risk"
    FAILING_REPEATEDLY = "failing_repeatedly"
    CANCELED = "canceled"
    RUN_LOST = "run_lost"
    SUCCESS_DOUBTED = "success_doubted"
    WORKSPACE_UNREACHABLE = "workspace_unreachable"
    PIPELINES_UNSHARED = "pipelines_unshared"
    TOKEN_EXPIRING = "token_expiring"  # noqa: S105 - a rule
    CALLBACKS_MISSED = "callbacks_missed"
    QUALITY_DROPPED = "quality_dropped"
    BUDGET_EXHAUSTED = "budget_exhausted"
    MONITOR_DEGRADED = "monitor_degraded"


def _rule_name(name: str) -> str | None:
    if re.fullmatch(_NAME, name) is None:
        return "use 1 to 63 of a-z, 0-9, _ and -, not _ or - first; it is a label and a topic level"
    return None


def _globs(texts: str | list[str]) -> str | None:
    return problems_of([[texts] if isinstance(texts, str) else texts], parse_globs)


def _run_kinds(texts: str | list[str]) -> str | None:
    return _globs(texts) or fits_some(texts, tuple(RunKind), "kind of run")


def _triggers(texts: str | list[str]) -> str | None:
    return _globs(texts) or fits_some(texts, tuple(Trigger), "trigger")


class Match(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the rule applies to: globs with *, ? and [abc], one or a list of them.

    Several of one key mean any, several keys mean all; without a key, everything. One that begins
    with ! excludes what it matches.
    """

    workspace: Annotated[
        tuple[str, ...], Setting("Names of [[workspaces]].", check=_globs, may_be_single=True)
    ] = ()
    kind: Annotated[
        tuple[str, ...],
        Setting(
            "flow_run, job_group, plan_run. With it the rule applies to such runs by "
            "themselves, also inside others; without it, about root runs.",
            check=_run_kinds,
            may_be_single=True,
        ),
    ] = ()
    pipeline: Annotated[
        tuple[str, ...],
        Setting("Names or ids of flows and plans.", check=_globs, may_be_single=True),
    ] = ()
    folder: Annotated[
        tuple[str, ...],
        Setting("Names of the folders that flows lie in.", check=_globs, may_be_single=True),
    ] = ()
    owner: Annotated[
        tuple[str, ...],
        Setting(
            "Who owns the run or the pipeline, as the workspace shows it.",
            check=_globs,
            may_be_single=True,
        ),
    ] = ()
    trigger: Annotated[
        tuple[str, ...],
        Setting(
            "What started the run: schedule, manual, api, plan, unknown.",
            check=_triggers,
            may_be_single=True,
        ),
    ] = ()


class RuleSettings(Struct, frozen=True, kw_only=True):
    """One rule. Repeat the table for each further one.

    Without any, the default rules are there; one of a default's name replaces it, and what is not
    set here is the default of its kind.
    """

    name: Annotated[
        str,
        Meta(pattern=_NAME),
        Setting(
            "The label alertname and a topic level; without it, the rule.",
            "failing_repeatedly",
            check=_rule_name,
            is_required=False,
        ),
    ]
    rule: Annotated[
        RuleKind,
        Setting(
            "The kind of rule; config/README.md lists when each one fires.", "failing_repeatedly"
        ),
    ]
    match: Match = Match()
    threshold: Annotated[
        float,
        Meta(ge=0, le=400 * 86_400),
        Setting("The number of the rule; config/README.md lists its meaning for each kind.", 3),
    ] = 0.0
    window_seconds: Annotated[
        float,
        Meta(ge=0, le=30 * 86_400),
        Setting("The time that callbacks_missed counts in.", 3600),
    ] = 0.0
    minimum: Annotated[
        int,
        Meta(ge=0, le=1_000),
        Setting("How much must be known before the rule uses a ratio or what it learned.", 4),
    ] = 0
    for_seconds: Annotated[
        float,
        Meta(ge=0, le=30 * 86_400),
        Setting("How long it must be true before the alert fires; until then it is pending.", 0),
    ] = 0.0
    severity: Annotated[Severity, Setting("The severity of its alerts.", "critical")] = (
        Severity.WARNING
    )
    labels: Annotated[
        dict[str, str],
        Setting("Further labels of its alerts, for routing. They stay until it is resolved."),
    ] = {}
    annotations: Annotated[
        dict[str, str],
        Setting(
            "Texts for people, over summary and description of the default. {pipeline} is a field; "
            "{seconds:duration}, {instant:time}, {instant:since} and {ratio:percent} write it for "
            "people, as of when the text is shown or sent.",
            {"summary": "{pipeline} keeps failing", "runbook_url": "https://wiki/runs"},
        ),
    ] = {}
    repeat_seconds: Annotated[
        float,
        Meta(ge=60, le=30 * 86_400),
        Setting("The time between two reminders of an alert that keeps firing."),
    ] = 4 * 3_600.0
    mute: Annotated[
        tuple[str, ...],
        Setting(
            'Times without notifications: "Mon-Fri 22:00-06:00 Europe/Berlin", '
            '"Sat,Sun,holidays UTC", or "Mon-Fri,!holidays UTC" for working days.',
            check=each_readable(parse_mute_window),
        ),
    ] = ()
    # When runs should start that no visible schedule starts: a Quartz expression, of its zone.
    expect: Annotated[
        str | None,
        Setting(
            "For schedule_missed: when runs should start whose schedule the token cannot "
            "see, in Quartz's cron or plain cron. Needs [alerts.match] pipeline.",
            "0 30 6 ? * MON-FRI",
            check=readable(quartz_expression),
        ),
    ] = None
    expect_timezone: Annotated[
        str,
        Setting(
            "The time zone of expect; UTC without it.", "Europe/Berlin", check=time_zone_problem
        ),
    ] = "UTC"
    # By when a pipeline must have succeeded, by the wall clock of its zone.
    deadline: Annotated[
        str | None,
        Setting(
            "For deadline_missed and deadline_at_risk: the time of day by which the pipeline must "
            "have succeeded. Needs [alerts.match] pipeline.",
            "07:00",
            check=readable(parse_time),
        ),
    ] = None
    deadline_timezone: Annotated[
        str,
        Setting(
            "The time zone of deadline and counts_from; UTC without it.",
            "Europe/Berlin",
            check=time_zone_problem,
        ),
    ] = "UTC"
    deadline_days: Annotated[
        str,
        Setting(
            'The days that have the deadline, such as "Mon-Fri" or "Mon,Thu"; every day without '
            "it.",
            "Mon-Fri",
            check=readable(parse_days),
        ),
    ] = EVERY_DAY
    counts: Annotated[
        Counts,
        Setting(
            "A success counts that began after counts_from (started), or that ended after it.",
            "ended",
        ),
    ] = Counts.STARTED
    counts_from: Annotated[
        str,
        Setting(
            "The time of day from which on a success counts for the deadline. One that is not "
            "before the deadline is of the day before; midnight without it.",
            "18:00",
            check=readable(parse_time),
        ),
    ] = MIDNIGHT
    holidays: Annotated[
        str | None,
        Setting(
            "The public holidays of this country, or of its subdivision: rules with a deadline and "
            "schedule_missed expect nothing then, and mute may name them. Needs the extra "
            "calendars.",
            "DE-BE",
            check=readable(parse_region),
        ),
    ] = None
    holiday_dates: Annotated[
        tuple[str, ...],
        Setting(
            "Further days that count as holidays.",
            ["2026-12-24", "2026-12-31"],
            check=each_readable(parse_date),
        ),
    ] = ()
    is_enabled: Annotated[bool, Setting("false removes the rule, and the default of its name.")] = (
        field(default=True, name="enabled")
    )

    @property
    def days_off(self) -> DaysOff:
        """Return the days on which the rule expects nothing, and that ``mute`` calls holidays."""
        return DaysOff(region=self.holidays, dates=self.holiday_dates)
