"""queue_slow: a run waits too long before it starts."""

from __future__ import annotations

from datetime import timedelta

from monitor.alerting.rules.contract import MINUTE, seconds
from monitor.alerting.rules.late_runs import END_EVENTS, ActiveRunInput, DueRun, late_run_rule
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.events import EventType
from monitor.model.runs import Status
from monitor.model.words import iso


def _waiting(run_input: ActiveRunInput, rule: RuleSettings) -> DueRun | None:
    run, as_of = run_input.run, run_input.as_of
    if run.status is not Status.PENDING or run.created_at is None:
        return None
    due = run.created_at + timedelta(seconds=rule.threshold)
    return DueRun(
        as_of=as_of,
        due=due,
        facts={
            "run": run.key.id,
            "created_at": iso(run.created_at),
            "limit_seconds": rule.threshold,
        },
    )


DEFINITION = late_run_rule(
    RuleKind.QUEUE_SLOW,
    _waiting,
    event_types=(EventType.RUN_STARTED, *END_EVENTS),
    about="A run waits too long before it starts.",
    summary="{pipeline} {waits|waited} too long in {workspace}",
    description="Run {run} {has been waiting|waited} for its start {created_at:since}, and "
    "{limit_seconds:duration} {is|was} the limit.",
    template_fields=("run", "created_at", "limit_seconds"),
    threshold=seconds("seconds from creation to start", 10 * MINUTE),
)
