"""run_failed: a run failed, and its pipeline has not succeeded since."""

from __future__ import annotations

from monitor.alerting.rules.contract import EventInput, RuleAnswer, RuleDefinition, SubjectKind
from monitor.alerting.rules.part_ends import (
    SubjectEnds,
    answer,
    error_facts,
    failing_parts,
    with_end_of,
    with_error,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alerts import Severity
from monitor.model.events import EventType


def on_event(
    event_input: EventInput, memory: SubjectEnds | None, _: RuleSettings
) -> RuleAnswer[SubjectEnds]:
    before = memory or SubjectEnds()
    after = with_error(event_input, with_end_of(event_input, before))
    failing = len(failing_parts(after))
    return answer(
        event_input,
        before,
        after,
        facts=lambda run: {**error_facts(run, after.error), "run": run.id, "failing": failing},
    )


DEFINITION: RuleDefinition[SubjectEnds, None] = RuleDefinition(
    rule=RuleKind.RUN_FAILED,
    subject_kind=SubjectKind.PIPELINE,
    memory=SubjectEnds,
    event_types=(
        EventType.RUN_FAILED,
        EventType.RUN_SUCCEEDED,
        EventType.RUN_CANCELED,
        EventType.RUN_DETAILED,
        EventType.RUN_CONFIRMED,
    ),
    on_event=on_event,
    keeps_ends=True,
    considers_past=True,
    about="A run failed; over at the next success of the same pipeline.",
    severity=Severity.CRITICAL,
    summary="{pipeline} failed in {workspace}",
    description="Run {run}: {error}",
    template_fields=("error", "part", "run", "failing"),
    reminders_inhibited_by=(RuleKind.WORKSPACE_UNREACHABLE,),
)
