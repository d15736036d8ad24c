"""canceled: a run was canceled, and none of its pipeline has ended otherwise since."""

from __future__ import annotations

from monitor.alerting.rules.contract import (
    MATCH_RUNS,
    EventInput,
    Facts,
    RuleAnswer,
    RuleDefinition,
    SubjectKind,
)
from monitor.alerting.rules.facts import PipelineFacts
from monitor.alerting.rules.failed_parts import (
    FailedParts,
    firing,
    is_own,
    recovered,
    with_failed,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alerts import Severity
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import Status


def on_event(
    event_input: EventInput[PipelineFacts], memory: FailedParts | None, _: RuleSettings
) -> RuleAnswer[FailedParts]:
    event = event_input.event
    if not isinstance(event, RunEvent) or not is_own(event_input, event):
        return RuleAnswer(result=None, memory=memory)
    before = memory or FailedParts()
    if event.run.status is not Status.CANCELED:
        return recovered(event, before)
    canceled = FailedParts(parts=with_failed(event_input, event, before))
    facts: Facts = {"run": event.run.key.id, "owner": event.run.owner}
    return firing(event_input, event, facts, canceled)


DEFINITION = RuleDefinition(
    rule=RuleKind.CANCELED,
    subject_kind=SubjectKind.PIPELINE,
    memory=FailedParts,
    event_types=(EventType.RUN_CANCELED, EventType.RUN_SUCCEEDED, EventType.RUN_FAILED),
    on_event=on_event,
    about="A run was canceled; over when one of the same pipeline ends otherwise.",
    is_default=False,  # people cancel on purpose
    severity=Severity.INFO,
    summary="{pipeline} was canceled in {workspace}",
    description="Run {run} of {owner} was canceled.",
    template_fields=("run", "owner"),
    match=MATCH_RUNS,
    reminders_inhibited_by=(RuleKind.WORKSPACE_UNREACHABLE,),
)
