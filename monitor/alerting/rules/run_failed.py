"""run_failed: a run failed, and its pipeline has not succeeded since."""

from __future__ import annotations

from monitor.alerting.rules.contract import (
    MATCH_RUNS,
    EventInput,
    Facts,
    Firing,
    RuleAnswer,
    RuleDefinition,
    SubjectKind,
)
from monitor.alerting.rules.facts import PipelineFacts
from monitor.alerting.rules.failed_parts import (
    FailedParts,
    error_of,
    firing,
    is_own,
    newest_error,
    recovered,
    with_failed,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alerts import Severity
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.runs import Status


def on_event(
    event_input: EventInput[PipelineFacts], memory: FailedParts | None, _: RuleSettings
) -> RuleAnswer[FailedParts]:
    event = event_input.event
    if not isinstance(event, RunEvent):
        return RuleAnswer(result=None, memory=memory)
    before = memory or FailedParts()
    if event.type is EventType.RUN_DETAILED:
        return _late_error(event_input, event, before)
    if event.run.status is Status.FAILED:
        failed = FailedParts(
            parts=with_failed(event_input, event, before),
            error=newest_error(event_input, event, before.error),
        )
        return firing(event_input, event, _facts(event_input, event, failed), failed)
    if event.run.status is not Status.SUCCEEDED or not is_own(event_input, event):
        # What succeeds inside a run that goes on ends nothing.
        return RuleAnswer(result=None, memory=memory)
    return recovered(event, before)


def _late_error(
    event_input: EventInput[PipelineFacts], event: RunEvent, before: FailedParts
) -> RuleAnswer[FailedParts]:
    """Add the error of a failure that was reported before its job records were read."""
    keys = [event.run.key]
    if event_input.root_run is not None:
        keys.append(event_input.root_run)
    known = {event_id: at for at, event_id in before.parts.values()}
    ids = [run_event_id(key, EventType.RUN_FAILED) for key in keys]
    failure = next((event_id for event_id in ids if event_id in known), None)
    if failure is None or not event.run.error:
        return RuleAnswer(result=None, memory=before if before.parts else None)
    failed = FailedParts(parts=before.parts, error=newest_error(event_input, event, before.error))
    result = Firing(
        since=min(known.values()),
        as_of=known[failure],
        evidence=(failure,),
        run=event_input.root_run,
        facts=_facts(event_input, event, failed),
    )
    return RuleAnswer(result=result, memory=failed)


def _facts(event_input: EventInput[PipelineFacts], event: RunEvent, failed: FailedParts) -> Facts:
    return {
        "error": error_of(event_input.root_run, failed.error),
        "run": event.run.key.id,
        "failing": len(failed.parts),
    }


DEFINITION = RuleDefinition(
    rule=RuleKind.RUN_FAILED,
    subject_kind=SubjectKind.PIPELINE,
    memory=FailedParts,
    event_types=(EventType.RUN_FAILED, EventType.RUN_SUCCEEDED, EventType.RUN_DETAILED),
    on_event=on_event,
    considers_past=True,
    about="A run failed; over at the next success of the same pipeline.",
    severity=Severity.CRITICAL,
    summary="{pipeline} failed in {workspace}",
    description="Run {run}: {error}",
    template_fields=("error", "run", "failing"),
    match=MATCH_RUNS,
    reminders_inhibited_by=(RuleKind.WORKSPACE_UNREACHABLE,),
)
