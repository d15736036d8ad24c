"""queue_slow: a run waits too long before it starts."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from monitor.alerting.rules.contract import (
    MATCH_RUNS,
    MINUTE,
    OUTAGES,
    RuleDefinition,
    StateInput,
    SubjectKind,
    seconds,
)
from monitor.alerting.rules.facts import PipelineFacts
from monitor.alerting.rules.late_runs import (
    END_EVENTS,
    DueRun,
    LateRuns,
    evaluate_late_runs,
    on_end_event,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.events import EventType
from monitor.model.runs import RunState, Status

_THRESHOLD = seconds("seconds from creation to start", 10 * MINUTE)


def _waiting(
    run: RunState,
    as_of: datetime,
    _: StateInput[PipelineFacts],
    __: LateRuns,
    rule: RuleSettings,
) -> DueRun | None:
    if run.status is not Status.PENDING or run.created_at is None:
        return None
    return DueRun(
        run=run,
        as_of=as_of,
        due=run.created_at + timedelta(seconds=_THRESHOLD.value(rule.threshold)),
        evidence=EventType.RUN_QUEUED,
        facts={
            "run": run.key.id,
            "waiting_seconds": (as_of - run.created_at).total_seconds(),
        },
    )


DEFINITION = RuleDefinition(
    rule=RuleKind.QUEUE_SLOW,
    subject_kind=SubjectKind.PIPELINE,
    memory=LateRuns,
    event_types=(EventType.RUN_STARTED, *END_EVENTS),
    on_event=on_end_event,
    evaluate=partial(evaluate_late_runs, check=_waiting),
    about="A run waits too long before it starts.",
    summary="{pipeline} waits too long in {workspace}",
    description="Run {run} has waited {waiting_seconds:duration} for its start.",
    template_fields=("run", "waiting_seconds"),
    match=MATCH_RUNS,
    threshold=_THRESHOLD,
    inhibited_by=OUTAGES,
)
