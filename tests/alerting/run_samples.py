"""Makes runs, their events and the inputs of rules about runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from monitor.alerting.rules.contract import (
    EventInput,
    PipelineFacts,
    StateInput,
    Subject,
    SubjectKind,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.model.events import STATUS_EVENTS, EventType, RunEvent, run_event_id
from monitor.model.live_state import ActiveRun
from monitor.model.runs import (
    JobDetails,
    Parents,
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)

END = datetime(2026, 11, 21, 10, tzinfo=UTC)
FLOW = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")
PLAN = Pipeline(kind=PipelineKind.PLAN, id="3", name="nightly")


def at(seconds: float) -> datetime:
    """Return the instant so many seconds after the history's zero."""
    return END + timedelta(seconds=seconds)


def key(number: int, kind: RunKind = RunKind.JOB_GROUP) -> RunKey:
    return RunKey(workspace="acme", kind=kind, id=str(number))


def state(
    number: int,
    status: Status,
    *,
    kind: RunKind = RunKind.JOB_GROUP,
    created_at: datetime | None = None,
    started_at: datetime | None = None,
    finished_at: datetime | None = None,
    seconds: float = 60.0,
    recipe: str | None = None,
    error: str | None = None,
    jobs: JobDetails | None = None,
    parents: Parents | None = None,
) -> RunState:
    """Return a run; an ended one ended at ``finished_at``, else at `END`, and took ``seconds``."""
    if status.is_terminal:
        finished_at = finished_at or END
        started_at = started_at or finished_at - timedelta(seconds=seconds)
    return RunState(
        key=key(number, kind),
        status=status,
        created_at=created_at,
        started_at=started_at,
        finished_at=finished_at,
        pipeline=PLAN if kind is RunKind.PLAN_RUN else FLOW,
        recipe=Recipe(id=recipe) if recipe is not None else None,
        parents=parents or Parents(),
        error=error,
        jobs=jobs,
        confirmed_at=END,
        confirmed_by=Source.POLL,
    )


def run_event(run: RunState, event_type: EventType | None = None) -> RunEvent:
    """Return the event of the run's status, or of another type."""
    of_type = event_type or STATUS_EVENTS[run.status]
    return RunEvent(
        id=run_event_id(run.key, of_type),
        type=of_type,
        run=run,
        before=None,
        occurred_at=run.finished_at if run.status.is_terminal else run.started_at,
        recorded_at=(run.finished_at or END) + timedelta(seconds=1),
        observed_by=Source.POLL,
    )


def subject(kind: RunKind = RunKind.JOB_GROUP) -> Subject:
    pipeline = PLAN if kind is RunKind.PLAN_RUN else FLOW
    return Subject(
        subject_kind=SubjectKind.PIPELINE, workspace="acme", kind=kind, pipeline=pipeline
    )


def event_input(event: RunEvent, *, root_run: RunKey | None = None) -> EventInput:
    """Return the input of one event; the run is its own root run by default."""
    return EventInput(event=event, root_run=root_run or event.run.key)


def active(run: RunState) -> ActiveRun:
    jobs = run.jobs
    return ActiveRun(
        run=run,
        confirmed_at=run.confirmed_at,
        confirmed_by=run.confirmed_by,
        percent_complete=jobs.percent_complete if jobs else None,
        heartbeat_at=jobs.heartbeat_at if jobs else None,
    )


def state_input(
    *runs: RunState,
    as_of: datetime | None,
    kind: RunKind = RunKind.JOB_GROUP,
    limit: float | None = None,
) -> StateInput[PipelineFacts]:
    """Return the input of a poll that was complete as of ``as_of``."""
    return StateInput(
        subject=subject(kind),
        as_of=as_of,
        facts=PipelineFacts(active=tuple(active(run) for run in runs), limit=limit),
        first_evaluated_at=END - timedelta(days=1),
    )


def rule(kind: RuleKind, *, threshold: float | None = None) -> RuleSettings:
    """Return a rule of its defaults, or with another threshold."""
    default = default_rule(kind)
    return default if threshold is None else msgspec.structs.replace(default, threshold=threshold)
