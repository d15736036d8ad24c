"""run_lost: the workspace lost a run before it ended, and none of its pipeline has ended since."""

from __future__ import annotations

from monitor.alerting.rules.contract import EventInput, RuleAnswer, RuleDefinition, SubjectKind
from monitor.alerting.rules.part_ends import SubjectEnds, answer, with_end_of
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.events import EventType
from monitor.model.runs import Status


def on_event(
    event_input: EventInput, memory: SubjectEnds | None, _: RuleSettings
) -> RuleAnswer[SubjectEnds]:
    if not event_input.is_own:
        return RuleAnswer(None, memory)  # the run around it shows how it ended
    before = memory or SubjectEnds()
    after = with_end_of(event_input, before, bad=Status.LOST)
    return answer(event_input, before, after, bad=Status.LOST)


DEFINITION: RuleDefinition[SubjectEnds, None] = RuleDefinition(
    rule=RuleKind.RUN_LOST,
    subject_kind=SubjectKind.PIPELINE,
    memory=SubjectEnds,
    event_types=(
        EventType.RUN_LOST,
        EventType.RUN_SUCCEEDED,
        EventType.RUN_FAILED,
        EventType.RUN_CONFIRMED,
    ),
    on_event=on_event,
    keeps_ends=True,
    about="The workspace no longer knows a run that had not ended; over when one of the same "
    "pipeline succeeds or fails.",
    summary="A run of {pipeline} was lost in {workspace}",
    description="Run {run} does not exist any more, and had not ended: its result is unknown.",
    template_fields=("run",),
    reminders_inhibited_by=(RuleKind.WORKSPACE_UNREACHABLE,),
)
