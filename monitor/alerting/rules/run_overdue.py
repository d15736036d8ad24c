"""run_overdue: a run lasts longer than a limit that is set, or learned from its pipeline's runs."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from monitor.alerting.rules.contract import (
    MATCH_RUNS,
    OUTAGES,
    Quantity,
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
    run_name,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.runs import RunKind, RunState, Status

# Lists do not show flow runs: the end of one is known some time after that of its last job group.
_END_READ_WITHIN = timedelta(minutes=2)


def _overdue(
    run: RunState,
    as_of: datetime,
    state: StateInput[PipelineFacts],
    before: LateRuns,
    rule: RuleSettings,
) -> DueRun | None:
    # Job groups and flow runs report no start of their own; their creation is the nearest stamp.
    started_at = run.started_at or run.created_at
    is_root = run.key.kind is state.subject.kind
    if run.status is not Status.RUNNING or not is_root or started_at is None:
        return None
    # Once late, late until the end: the learned limit moves with each run that ends beside it.
    due = before.since.get(run_name(run.key))
    is_late = due is not None
    if due is None:
        limit = rule.threshold or state.facts.limit
        if limit is None:
            return None
        due = started_at + timedelta(seconds=limit)
    return DueRun(
        run=run,
        as_of=as_of if is_late or _shows_work(run, state) else as_of - _END_READ_WITHIN,
        due=due,
        facts={
            "run": run.key.id,
            "running_seconds": (as_of - started_at).total_seconds(),
            "limit_seconds": (due - started_at).total_seconds(),
        },
    )


def _shows_work(run: RunState, state: StateInput[PipelineFacts]) -> bool:
    """False for a flow run none of whose parts is active: it may be over, which is read by id."""
    return run.key.kind is not RunKind.FLOW_RUN or any(
        active.run.parents.flow_run == run.key.id for active in state.facts.active
    )


DEFINITION = RuleDefinition(
    rule=RuleKind.RUN_OVERDUE,
    subject_kind=SubjectKind.PIPELINE,
    memory=LateRuns,
    event_types=END_EVENTS,
    on_event=on_end_event,
    evaluate=partial(evaluate_late_runs, check=_overdue),
    about="A run lasts longer than a limit, or than runs of its pipeline ever need.",
    summary="{pipeline} runs for too long in {workspace}",
    description="Run {run} is at {running_seconds:duration}, and "
    "{limit_seconds:duration} is the limit.",
    template_fields=("run", "running_seconds", "limit_seconds"),
    match=MATCH_RUNS,
    threshold=seconds("seconds from its start; without it the limit is learned", None),
    minimum=Quantity(about="runs that a limit is learned from", default=10, least=10, most=200),
    inhibited_by=OUTAGES,
)
