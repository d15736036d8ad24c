"""pipelines_unshared: flows or plans that were known are no longer shared with the token's owner.

What they do is not seen, so no other rule judges them; all others are judged, which is why this is
no outage. A day later the workspace is taken for what it shows. By our clock.
"""

from __future__ import annotations

from collections import Counter

from monitor.alerting.rules.contract import (
    MINUTE,
    Firing,
    NoMemory,
    Ok,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
    WorkspaceFacts,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.runs import PipelineKind

_NAMED = 5


def evaluate(
    state: StateInput[WorkspaceFacts], _: NoMemory | None, __: RuleSettings
) -> RuleAnswer[NoMemory]:
    now, status = state.as_of, state.facts.status
    if now is None or status.is_remembered:
        return RuleAnswer(Unknown("the workspace has not been asked yet"))
    if not status.unshared:
        return RuleAnswer(Ok(at=now))
    unshared = sorted(
        status.unshared.values(), key=lambda hidden: (hidden.since, hidden.pipeline.id)
    )
    result = Firing(
        since=state.steady(unshared[0].since),
        as_of=now,
        facts={
            "pipelines": _counted(Counter(hidden.pipeline.kind for hidden in unshared)),
            "reason": "; ".join(hidden.reason for hidden in unshared[:_NAMED]),
        },
    )
    return RuleAnswer(result)


def _counted(counts: Counter[PipelineKind]) -> str:
    """Return such as "3 flows and 1 plan"."""
    return " and ".join(
        f"{count} {kind}{'' if count == 1 else 's'}"
        for kind in PipelineKind
        if (count := counts[kind])
    )


DEFINITION = RuleDefinition(
    rule=RuleKind.PIPELINES_UNSHARED,
    subject_kind=SubjectKind.WORKSPACE,
    memory=NoMemory,
    evaluate=evaluate,
    about="Flows or plans that were known are no longer shared with the token's owner.",
    summary="The token of {workspace} {sees|saw} {pipelines} no more",
    description="Their runs {are|were} not watched: {reason}.",
    template_fields=("pipelines", "reason"),
    for_seconds=MINUTE,
    not_recorded="the event log does not hold what was shared",
)
