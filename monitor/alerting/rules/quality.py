"""Rules about what the data is like."""

from __future__ import annotations

from datetime import datetime, timedelta
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from monitor.alerting.rules.contract import (
    AnyRuleDefinition,
    Firing,
    Ok,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
    Verdict,
)
from monitor.alerting.rules.facts import OutputFacts
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.model.events import EventType, run_event_id
from monitor.model.inventory import OutputQuality
from monitor.model.runs import RunKey, RunKind

_REMEMBERED = 20
# A restart forgets what outputs were like until their profiles are read again, and an output
# whose newest run failed has none to read; one that stays away for so long is no more.
_GONE_AFTER = timedelta(days=7)


class Qualities(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The valid part of an output's values by its newest profiles, oldest first.

    ``low`` are those of now that fell below what is usual; they do not count as usual, until
    there were so many in a row that nothing else is.
    """

    run_id: str  # of the newest profile
    judged_at: datetime  # when that was first seen
    usual: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    low_since: datetime | None = None
    absent_since: datetime | None = None


def evaluate_quality(
    looked: StateInput[OutputFacts], memory: Qualities | None, rule: RuleSettings
) -> RuleAnswer[Qualities]:
    now, quality = looked.as_of, looked.facts.quality
    if now is None or quality is None:
        return _absent(now, memory)
    if memory is not None and memory.absent_since is not None:
        memory = replace(memory, absent_since=None)
    if quality.counts.total > 0 and (memory is None or memory.run_id != quality.run_id):
        memory = _with_profile(memory, quality, rule, now)
    if memory is None:
        return RuleAnswer(result=None)
    return RuleAnswer(result=_result(looked, memory, quality, now), memory=memory)


def _absent(now: datetime | None, memory: Qualities | None) -> RuleAnswer[Qualities]:
    unclear = Unknown(why="no profile of this output is known now")
    if now is None or memory is None:
        return RuleAnswer(result=unclear, memory=memory)
    since = memory.absent_since or now
    if now - since >= _GONE_AFTER:
        return RuleAnswer(result=Ok(at=now))
    held = replace(memory, absent_since=since)
    return RuleAnswer(result=unclear, memory=held, again_at=since + _GONE_AFTER)


def _with_profile(
    held: Qualities | None, quality: OutputQuality, rule: RuleSettings, now: datetime
) -> Qualities:
    ratio = quality.counts.valid / quality.counts.total
    if held is None:
        return Qualities(run_id=quality.run_id, judged_at=now, usual=(ratio,))
    held = replace(held, run_id=quality.run_id, judged_at=now)
    is_known = len(held.usual) >= max(1, rule.minimum)
    if not is_known or ratio >= median(held.usual) - (rule.threshold or 0.0):
        usual = (*held.usual, ratio)[-_REMEMBERED:]
        return replace(held, usual=usual, low=(), low_since=None)
    low = (*held.low, ratio)
    if len(low) >= _REMEMBERED:
        return replace(held, usual=low, low=(), low_since=None)
    return replace(held, low=low, low_since=held.low_since or now)


def _result(
    looked: StateInput[OutputFacts], held: Qualities, quality: OutputQuality, now: datetime
) -> Verdict:
    key = RunKey(looked.subject.workspace, RunKind.JOB_GROUP, held.run_id)
    evidence = (run_event_id(key, EventType.RUN_SUCCEEDED),)
    if held.low_since is None:
        return Ok(at=held.judged_at, evidence=evidence)
    return Firing(
        since=held.low_since,
        as_of=now,
        evidence=evidence,
        run=key,
        facts={
            "output": quality.name or quality.id,
            "valid_ratio": held.low[-1],
            "usual_ratio": median(held.usual),
        },
    )


RULE_DEFINITIONS: tuple[AnyRuleDefinition, ...] = (
    RuleDefinition(
        rule=RuleKind.QUALITY_DROPPED,
        subject_kind=SubjectKind.OUTPUT,
        memory=Qualities,
        evaluate=evaluate_quality,
        template_fields=("output", "valid_ratio", "usual_ratio"),
    ),
)
