"""canceled: a run was canceled, and none of its pipeline has ended otherwise since."""

from __future__ import annotations

from monitor.alerting.rules.contract import EventInput, RuleAnswer, RuleDefinition, SubjectKind
from monitor.alerting.rules.failed_parts import FailedParts, firing, recovered, with_failed
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alerts import Severity
from monitor.model.events import EventType
from monitor.model.runs import Status


def on_event(
    event_input: EventInput, memory: FailedParts | None, _: RuleSettings
) -> RuleAnswer[FailedParts]:
    if not event_input.is_own:
        return RuleAnswer(None, memory)
    run, before = event_input.event.run, memory or FailedParts()
    if run.status is not Status.CANCELED:
        return recovered(event_input, before)
    canceled = FailedParts(parts=with_failed(event_input, before.parts))
    return firing(event_input, {"run": run.key.id, "owner": run.owner}, canceled)


DEFINITION: RuleDefinition[FailedParts, None] = RuleDefinition(
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
    reminders_inhibited_by=(RuleKind.WORKSPACE_UNREACHABLE,),
)
