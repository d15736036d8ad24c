"""run_overdue: a run lasts longer than a limit that is set, or learned from its pipeline's runs."""

from __future__ import annotations

from datetime import timedelta

from monitor.alerting.rules.contract import Quantity, seconds
from monitor.alerting.rules.late_runs import ActiveRunInput, DueRun, late_run_rule
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.runs import RunKind, Status
from monitor.model.words import iso

# Lists do not show flow runs: the end of one is known some time after that of its last job group.
_END_READ_WITHIN = timedelta(minutes=2)


def _overdue(run_input: ActiveRunInput, rule: RuleSettings) -> DueRun | None:
    run, as_of = run_input.run, run_input.as_of
    # Job groups and flow runs report no start of their own; their creation is the nearest stamp.
    started_at = run.started_at or run.created_at
    if run.status is not Status.RUNNING or not run_input.is_root or started_at is None:
        return None
    started_at = max(started_at, run.created_at or started_at)  # stamps of two clocks
    # Once late, late until the end: the learned limit moves with each run that ends beside it.
    due = run_input.late_since
    is_late = due is not None
    if due is None:
        limit = rule.threshold or run_input.facts.limit
        if limit is None:
            return None
        due = started_at + timedelta(seconds=limit)
    return DueRun(
        as_of=as_of if is_late or _shows_work(run_input) else as_of - _END_READ_WITHIN,
        due=due,
        facts={
            "run": run.key.id,
            "started_at": iso(started_at),
            "limit_seconds": (due - started_at).total_seconds(),
        },
    )


def _shows_work(run_input: ActiveRunInput) -> bool:
    """False for a flow run none of whose parts is active: it may be over, which is read by id."""
    key = run_input.run.key
    return key.kind is not RunKind.FLOW_RUN or any(
        active.run.parents.flow_run == key.id for active in run_input.facts.active
    )


DEFINITION = late_run_rule(
    RuleKind.RUN_OVERDUE,
    _overdue,
    about="A run lasts longer than a limit, or than runs of its pipeline ever need.",
    summary="{pipeline} {runs|ran} for too long in {workspace}",
    description="Run {run} {has been running|ran} {started_at:since}, and "
    "{limit_seconds:duration} {is|was} the limit.",
    template_fields=("run", "started_at", "limit_seconds"),
    threshold=seconds("seconds from its start; without it the limit is learned", None),
    minimum=Quantity(about="runs that a limit is learned from", default=10, least=10, most=200),
)
