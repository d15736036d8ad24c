"""queue_slow: a run waits too long before it starts."""

from __future__ import annotations

from datetime import timedelta

from monitor.alerting.rules.contract import MINUTE, seconds
from monitor.alerting.rules.late_runs import END_EVENTS, ActiveRunInput, DueRun, late_run_rule
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.events import EventType
from monitor.model.runs import Status


def _waiting(run_input: ActiveRunInput, rule: RuleSettings) -> DueRun | None:
    run, as_of = run_input.run, run_input.as_of
    if run.status is not Status.PENDING or run.created_at is None:
        return None
    return DueRun(
        as_of=as_of,
        due=run.created_at + timedelta(seconds=rule.threshold),
        facts={"run": run.key.id, "waiting_seconds": (as_of - run.created_at).total_seconds()},
    )


DEFINITION = late_run_rule(
    RuleKind.QUEUE_SLOW,
    _waiting,
    event_types=(EventType.RUN_STARTED, *END_EVENTS),
    about="A run waits too long before it starts.",
    summary="{pipeline} waits too long in {workspace}",
    description="Run {run} has waited {waiting_seconds:duration} for its start.",
    template_fields=("run", "waiting_seconds"),
    threshold=seconds("seconds from creation to start", 10 * MINUTE),
)
