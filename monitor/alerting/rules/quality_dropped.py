"""quality_dropped: the valid part of an output's values fell below what is usual for it."""

from __future__ import annotations

from datetime import datetime, timedelta
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from monitor.alerting.rules.contract import (
    EvaluationResult,
    Firing,
    Ok,
    OutputFacts,
    Quantity,
    Requirement,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.events import EventType, run_event_id
from monitor.model.inventory import OutputQuality
from monitor.model.runs import RunKey, RunKind

_REMEMBERED = 20
# A restart forgets profiles until they are read again, and an output whose newest run failed has
# none to read; one that stays away for so long is gone.
_GONE_AFTER = timedelta(days=7)


class Qualities(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The valid part of an output's values in its newest profiles, oldest first.

    ``low`` are those of now that fell below what is usual; they do not count as usual, until
    there were so many in a row that nothing else is.
    """

    run_id: str  # of the newest profile
    judged_at: datetime  # when that was first seen
    usual: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    low_since: datetime | None = None
    absent_since: datetime | None = None


def evaluate(
    state: StateInput[OutputFacts], memory: Qualities | None, rule: RuleSettings
) -> RuleAnswer[Qualities]:
    now, quality = state.as_of, state.facts.quality
    if now is None or quality is None:
        return _absent(now, memory)
    if memory is not None and memory.absent_since is not None:
        memory = replace(memory, absent_since=None)
    if quality.counts.total > 0 and (memory is None or memory.run_id != quality.run_id):
        memory = _with_profile(memory, quality, rule, now)
    if memory is None:
        return RuleAnswer(None)
    return RuleAnswer(_result(state, memory, quality, now), memory)


def _absent(now: datetime | None, memory: Qualities | None) -> RuleAnswer[Qualities]:
    unknown = Unknown("no profile of this output is known now")
    if now is None or memory is None:
        return RuleAnswer(unknown, memory)
    since = memory.absent_since or now
    if now - since >= _GONE_AFTER:
        return RuleAnswer(Ok(at=now))
    memory = replace(memory, absent_since=since)
    return RuleAnswer(unknown, memory, again_at=since + _GONE_AFTER)


def _with_profile(
    memory: Qualities | None, quality: OutputQuality, rule: RuleSettings, now: datetime
) -> Qualities:
    ratio = quality.counts.valid / quality.counts.total
    if memory is None:
        return Qualities(run_id=quality.run_id, judged_at=now, usual=(ratio,))
    memory = replace(memory, run_id=quality.run_id, judged_at=now)
    is_known = len(memory.usual) >= rule.minimum
    if not is_known or ratio >= median(memory.usual) - rule.threshold:
        usual = (*memory.usual, ratio)[-_REMEMBERED:]
        return replace(memory, usual=usual, low=(), low_since=None)
    low = (*memory.low, ratio)
    if len(low) >= _REMEMBERED:
        return replace(memory, usual=low, low=(), low_since=None)
    return replace(memory, low=low, low_since=memory.low_since or now)


def _result(
    state: StateInput[OutputFacts], memory: Qualities, quality: OutputQuality, now: datetime
) -> EvaluationResult:
    key = RunKey(state.subject.workspace, RunKind.JOB_GROUP, memory.run_id)
    evidence = (run_event_id(key, EventType.RUN_SUCCEEDED),)
    if memory.low_since is None:
        return Ok(at=memory.judged_at, evidence=evidence)
    return Firing(
        since=memory.low_since,
        as_of=now,
        evidence=evidence,
        run=key,
        facts={
            "output": quality.name or quality.id,
            "valid_ratio": memory.low[-1],
            "usual_ratio": median(memory.usual),
        },
    )


DEFINITION = RuleDefinition(
    rule=RuleKind.QUALITY_DROPPED,
    subject_kind=SubjectKind.OUTPUT,
    memory=Qualities,
    evaluate=evaluate,
    about="The valid part of an output's values fell below what is usual for it.",
    summary="The quality of {output} dropped in {workspace}",
    description="{valid_ratio:percent} of the values of {output} ({pipeline}) {are|were} valid; "
    "{usual_ratio:percent} is usual.",
    template_fields=("output", "valid_ratio", "usual_ratio"),
    threshold=Quantity(about="how much less, of 1", default=0.1, least=0.001, most=1),
    minimum=Quantity(about="profiles that usual is learned from", default=5, least=2, most=20),
    requires=Requirement(
        table="inventory", key="profiles", hint="set profiles = true in [workspaces.inventory]"
    ),
    not_recorded="the event log does not hold profiles",
)
