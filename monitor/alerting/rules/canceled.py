"""canceled: a run was canceled, and none of its pipeline has ended otherwise since."""

from __future__ import annotations

from monitor.alerting.rules.contract import EventInput, RuleAnswer, RuleDefinition, SubjectKind
from monitor.alerting.rules.part_ends import SubjectEnds, answer, with_end_of
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alerts import Severity
from monitor.model.events import EventType
from monitor.model.runs import Status


def on_event(
    event_input: EventInput, memory: SubjectEnds | None, _: RuleSettings
) -> RuleAnswer[SubjectEnds]:
    if not event_input.is_own:
        return RuleAnswer(None, memory)
    before = memory or SubjectEnds()
    after = with_end_of(event_input, before, bad=Status.CANCELED)
    return answer(event_input, before, after, bad=Status.CANCELED)


DEFINITION: RuleDefinition[SubjectEnds, None] = RuleDefinition(
    rule=RuleKind.CANCELED,
    subject_kind=SubjectKind.PIPELINE,
    memory=SubjectEnds,
    event_types=(
        EventType.RUN_CANCELED,
        EventType.RUN_SUCCEEDED,
        EventType.RUN_FAILED,
        EventType.RUN_CONFIRMED,
    ),
    on_event=on_event,
    keeps_ends=True,
    about="A run was canceled; over when one of the same pipeline ends otherwise.",
    is_default=False,  # people cancel on purpose
    severity=Severity.INFO,
    summary="{pipeline} was canceled in {workspace}",
    description="Run {run} of {owner} was canceled.",
    template_fields=("run",),
    reminders_inhibited_by=(RuleKind.WORKSPACE_UNREACHABLE,),
)
