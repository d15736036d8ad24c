"""The settings of alerting: its rules, its silences, and the life cycle of alerts."""

from __future__ import annotations

from typing import Any

from monitor.alerting.settings import (
    AlertingSettings,
    Match,
    RuleKind,
    RuleSettings,
    SilenceSettings,
)
from monitor.config import alerting_checks as checks
from monitor.config.cron import quartz_expression
from monitor.config.keys import Key, Kind, Section
from monitor.model.alerts import Severity


def _expected(text: str) -> dict[str, Any]:
    return {"expect": quartz_expression(text)}


ALERTING = Section(
    path="alerting",
    target=AlertingSettings,
    about="The life cycle of alerts, for every rule.",
    fixed=("rules", "silences"),
    keys=(
        Key(
            name="defaults",
            kind=Kind.BOOLEAN,
            field="with_defaults",
            about="Use every rule but canceled without [[alerts]].",
        ),
        Key(
            name="evaluation_interval_seconds",
            kind=Kind.NUMBER,
            minimum=0.1,
            maximum=60,
            about="Evaluation interval of time-based rules; event-driven rules run immediately.",
        ),
        Key(
            name="flap_count",
            kind=Kind.WHOLE,
            minimum=2,
            maximum=100,
            about="An alert that fires so often within flap_seconds is reported once, as flapping.",
        ),
        Key(
            name="flap_seconds",
            kind=Kind.NUMBER,
            minimum=60,
            maximum=7 * 86_400,
            about="The time for flap_count; flapping ends after half of it without a change.",
        ),
        Key(
            name="resolved_kept_seconds",
            kind=Kind.NUMBER,
            minimum=60,
            maximum=7 * 86_400,
            about="How long a resolved alert stays on the page and in its retained topic.",
        ),
        Key(
            name="parents_wait_seconds",
            kind=Kind.NUMBER,
            minimum=0,
            maximum=300,
            about="How long links between a plan run and its parts are looked for, and how long an "
            "alert waits behind another one that is likely to be about the same failure.",
        ),
    ),
)

ALERTS = Section(
    path="alerts",
    target=RuleSettings,
    is_optional=True,
    is_repeated=True,
    about="One rule. Repeat the table for each further one. Without any, the default rules are "
    "there; one of a default's name replaces it, and what is not set here is the default of its "
    "kind.",
    fixed=("match",),
    keys=(
        Key(
            name="name",
            kind=Kind.TEXT,
            check=checks.rule_name,
            pattern=checks.RULE_NAME,
            example="failing_repeatedly",
            about="The label alertname and a topic level; without it, the rule.",
        ),
        Key(
            name="rule",
            kind=Kind.TEXT,
            choices=tuple(RuleKind),
            is_required=True,
            example="failing_repeatedly",
            about="The kind of rule; config/README.md lists when each one fires.",
        ),
        Key(
            name="threshold",
            kind=Kind.NUMBER,
            minimum=0,
            maximum=400 * 86_400,
            varies=True,
            example=3,
            about="The number of the rule; config/README.md lists its meaning for each kind.",
        ),
        Key(
            name="window_seconds",
            kind=Kind.NUMBER,
            minimum=0,
            maximum=30 * 86_400,
            varies=True,
            example=3_600,
            about="The time that callbacks_missed counts in.",
        ),
        Key(
            name="minimum",
            kind=Kind.WHOLE,
            minimum=0,
            maximum=1_000,
            varies=True,
            example=4,
            about="How much must be known before the rule uses a ratio or what it learned.",
        ),
        Key(
            name="for_seconds",
            kind=Kind.NUMBER,
            minimum=0,
            maximum=30 * 86_400,
            varies=True,
            example=0,
            about="How long it must be true before the alert fires; until then it is pending.",
        ),
        Key(
            name="severity",
            kind=Kind.TEXT,
            choices=tuple(Severity),
            varies=True,
            example="critical",
            about="The severity of its alerts.",
        ),
        Key(
            name="labels",
            kind=Kind.TABLE,
            about="Further labels of its alerts, for routing. They stay until it is resolved.",
        ),
        Key(
            name="annotations",
            kind=Kind.TABLE,
            varies=True,
            example={"summary": "{pipeline} keeps failing", "runbook": "https://wiki/runs"},
            about="Texts for people, over summary and description of the default. {pipeline} is "
            "a field; {seconds:duration}, {instant:time} and {ratio:percent} write it for people.",
        ),
        Key(
            name="repeat_seconds",
            kind=Kind.NUMBER,
            minimum=60,
            maximum=30 * 86_400,
            about="The time between two reminders of an alert that keeps firing.",
        ),
        Key(
            name="mute",
            kind=Kind.TEXTS,
            check=checks.mute_times,
            about='Weekly times without notifications: "Mon-Fri 22:00-06:00 Europe/Berlin", or '
            '"Sat,Sun UTC".',
        ),
        Key(
            name="expect",
            kind=Kind.TEXT,
            check=checks.cron,
            spread=_expected,
            varies=True,
            example="0 30 6 ? * MON-FRI",
            about="For schedule_missed: when runs should start whose schedule the token cannot "
            "see, in Quartz's cron or plain cron. Needs [alerts.match] pipeline.",
        ),
        Key(
            name="expect_timezone",
            kind=Kind.TEXT,
            check=checks.time_zone,
            varies=True,
            example="Europe/Berlin",
            about="The time zone of expect; UTC without it.",
        ),
        Key(
            name="enabled",
            kind=Kind.BOOLEAN,
            field="is_enabled",
            about="false removes the rule, and the default of its name.",
        ),
    ),
)

MATCH = Section(
    path="alerts.match",
    target=Match,
    about="What the rule applies to: globs with *, ? and [abc], one or a list of them. Several of "
    "one key mean any, several keys mean all; without a key, everything. One that begins with ! "
    "excludes what it matches.",
    keys=(
        Key(
            name="workspace",
            kind=Kind.ONE_OR_MORE,
            check=checks.globs,
            about="Names of [[workspaces]].",
        ),
        Key(
            name="kind",
            kind=Kind.ONE_OR_MORE,
            check=checks.run_kinds,
            about="flow_run, job_group, plan_run. With it the rule applies to such runs by "
            "themselves, also inside others; without it, about root runs.",
        ),
        Key(
            name="pipeline",
            kind=Kind.ONE_OR_MORE,
            check=checks.globs,
            about="Names or ids of flows and plans.",
        ),
        Key(
            name="folder",
            kind=Kind.ONE_OR_MORE,
            check=checks.globs,
            about="Names of the folders that flows lie in.",
        ),
        Key(
            name="owner",
            kind=Kind.ONE_OR_MORE,
            check=checks.globs,
            about="Who owns the run or the pipeline, as the workspace shows it.",
        ),
        Key(
            name="trigger",
            kind=Kind.ONE_OR_MORE,
            check=checks.triggers,
            about="What started the run: schedule, manual, api, plan, unknown.",
        ),
    ),
)

SILENCES = Section(
    path="silences",
    target=SilenceSettings,
    is_optional=True,
    is_repeated=True,
    is_example=True,
    about="Suppress the notifications of matching alerts until a time. Repeat the table for each "
    "further one; `dataprep-monitor silence` makes them without a restart.",
    keys=(
        Key(
            name="matchers",
            kind=Kind.TEXTS,
            is_required=True,
            example=["workspace=marketing", "pipeline=Orders*"],
            about='Labels of the alert; all must match: "label=glob" or "label!=glob".',
        ),
        Key(
            name="comment",
            kind=Kind.TEXT,
            is_required=True,
            example="The warehouse moves.",
            about="The reason; `explain` shows it.",
        ),
        Key(
            name="ends_at",
            kind=Kind.INSTANT,
            is_required=True,
            example=checks.AN_INSTANT,
            about="When it ends. There is no silence without an end.",
        ),
        Key(
            name="starts_at",
            kind=Kind.INSTANT,
            example=checks.AN_EARLIER_INSTANT,
            about="When it begins; without it, as soon as it is loaded.",
        ),
        Key(
            name="author",
            kind=Kind.TEXT,
            about="Who made it.",
        ),
    ),
)
