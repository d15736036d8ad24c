"""run_failed: a run failed, and its pipeline has not succeeded since."""

from __future__ import annotations

from monitor.alerting.rules.contract import (
    EventInput,
    Facts,
    Firing,
    RuleAnswer,
    RuleDefinition,
    SubjectKind,
)
from monitor.alerting.rules.failed_parts import (
    FailedParts,
    error_of,
    firing,
    newest_error,
    recovered,
    with_failed,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alerts import Severity
from monitor.model.events import EventType, run_event_id
from monitor.model.runs import Status


def on_event(
    event_input: EventInput, memory: FailedParts | None, _: RuleSettings
) -> RuleAnswer[FailedParts]:
    event, before = event_input.event, memory or FailedParts()
    if event.type is EventType.RUN_DETAILED:
        return _late_error(event_input, before)
    if event.run.status is Status.FAILED:
        failed = FailedParts(
            parts=with_failed(event_input, before.parts),
            error=newest_error(event_input, before.error),
        )
        return firing(event_input, _facts(event_input, failed), failed)
    if event.run.status is not Status.SUCCEEDED or not event_input.is_own:
        # What succeeds inside a run that goes on ends nothing.
        return RuleAnswer(None, memory)
    return recovered(event_input, before)


def _late_error(event_input: EventInput, before: FailedParts) -> RuleAnswer[FailedParts]:
    """Add the error of a failure that was reported before its job records were read."""
    run, root_run = event_input.event.run, event_input.root_run
    known = {event_id: at for at, event_id in before.parts.values()}
    ids = [run_event_id(key, EventType.RUN_FAILED) for key in (run.key, root_run)]
    failure = next((event_id for event_id in ids if event_id in known), None)
    if failure is None or not run.error:
        return RuleAnswer(None, before if before.parts else None)
    failed = FailedParts(parts=before.parts, error=newest_error(event_input, before.error))
    result = Firing(
        since=min(known.values()),
        as_of=known[failure],
        evidence=(failure,),
        run=root_run,
        facts=_facts(event_input, failed),
    )
    return RuleAnswer(result, failed)


def _facts(event_input: EventInput, failed: FailedParts) -> Facts:
    return {
        "error": error_of(event_input.root_run, failed.error),
        "run": event_input.event.run.key.id,
        "failing": len(failed.parts),
    }


DEFINITION: RuleDefinition[FailedParts, None] = RuleDefinition(
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
    reminders_inhibited_by=(RuleKind.WORKSPACE_UNREACHABLE,),
)
