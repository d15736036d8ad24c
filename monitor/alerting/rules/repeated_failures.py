"""The rule failing_repeatedly: so many failures in a row, or too many of the newest ends.

A threshold of 1 or more counts failures in a row, and one success ends it. A threshold below 1 is
a share of the newest ends; it has been reached only with some ends known, and what has reached it
is over at half of it, so that one more failure does not begin it again. Cancels count as nothing.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from monitor.alerting.rules.contract import (
    EventInput,
    Firing,
    Ok,
    RuleAnswer,
    RuleDefinition,
    SubjectKind,
)
from monitor.alerting.rules.defaults import minimum_of, threshold_of
from monitor.alerting.rules.facts import PipelineFacts
from monitor.alerting.rules.parts import (
    FailedPart,
    error_of,
    is_own,
    newest_error,
    part_of,
    told_at,
)
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.runs import RunKey, Status

_ENDS_KEPT = 20  # no threshold asks for more
_PARTS_KEPT = 50
_OVER_AT = 0.5  # of the share at which it began

End = tuple[datetime, bool, str]  # when, whether it is a failure, the run's id


class PartEnds(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest ends, oldest first, and since when they have been too bad."""

    ends: tuple[End, ...] = ()
    since: datetime | None = None


class SubjectEnds(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Those of one subject, by part."""

    parts: dict[str, PartEnds] = {}
    told: FailedPart | None = None


def on_event(
    heard: EventInput[PipelineFacts], memory: SubjectEnds | None, rule: RuleSettings
) -> RuleAnswer[SubjectEnds]:
    event = heard.event
    if not isinstance(event, RunEvent):
        return RuleAnswer(result=None, memory=memory)
    held = memory or SubjectEnds()
    told = newest_error(heard, event, held.told)
    if event.type is EventType.RUN_DETAILED or not is_own(heard, event):
        return _explained(heard, event, SubjectEnds(parts=held.parts, told=told))
    was_bad = any(other_part.since for other_part in held.parts.values())
    name = part_of(event, own=True)
    part = _with_end(held.parts.get(name) or PartEnds(), event, rule)
    parts = sorted({**held.parts, name: part}.items(), key=lambda item: item[1].ends[-1])
    ends = SubjectEnds(parts=dict(parts[-_PARTS_KEPT:]), told=told)
    if part.since is not None and event.run.status is Status.FAILED:
        return RuleAnswer(result=_firing(event.run.key, part, ends), memory=ends)
    if was_bad and all(other_part.since is None for other_part in ends.parts.values()):
        return RuleAnswer(result=Ok(at=told_at(event), evidence=(event.id,)), memory=ends)
    return RuleAnswer(result=None, memory=ends)


def _explained(
    heard: EventInput[PipelineFacts], event: RunEvent, ends: SubjectEnds
) -> RuleAnswer[SubjectEnds]:
    """Something inside a run, or its job records, tell why it fails: no end of its own."""
    memory = None if ends == SubjectEnds() else ends
    bad = (other_part for other_part in ends.parts.values() if other_part.since is not None)
    part = next(
        (item for item in bad if heard.root_run and item.ends[-1][2] == heard.root_run.id), None
    )
    if part is None or heard.root_run is None or not event.run.error:
        return RuleAnswer(result=None, memory=memory)
    return RuleAnswer(result=_firing(heard.root_run, part, ends), memory=memory)


def _with_end(part: PartEnds, event: RunEvent, rule: RuleSettings) -> PartEnds:
    """Put one end where it belongs in time, and judge the part anew."""
    end = (told_at(event), event.run.status is Status.FAILED, event.run.key.id)
    ends = [other_end for other_end in part.ends if other_end[2] != end[2]]
    insort(ends, end)
    threshold = threshold_of(rule)
    if threshold < 1:
        ends = ends[-_ENDS_KEPT:]
        since = _since_by_share(ends, part.since, rule, newest=end)
        return PartEnds(ends=tuple(ends), since=since)
    count = int(threshold)
    row = _row(ends)
    # Behind the newest success nothing matters; that one does, should an older end come late.
    kept = ends[len(ends) - len(row) - 1 :] if len(row) < len(ends) else ends
    row_since = (part.since or row[count - 1][0]) if len(row) >= count else None
    return PartEnds(ends=tuple(kept[-_ENDS_KEPT:]), since=row_since)


def _row(ends: Sequence[End]) -> Sequence[End]:
    """Return the failures since the newest success."""
    newest = max((place for place, end in enumerate(ends) if not end[1]), default=-1)
    return ends[newest + 1 :]


def _since_by_share(
    ends: Sequence[End], since: datetime | None, rule: RuleSettings, *, newest: End
) -> datetime | None:
    """``newest`` is the end told last, which need not be the last one of ``ends``."""
    share, threshold = _share(ends), threshold_of(rule)
    if since is not None:
        return since if share > _OVER_AT * threshold else None
    # A success begins nothing, although with it there may be enough ends to judge.
    is_enough = newest[1] and len(ends) >= minimum_of(rule)
    return newest[0] if is_enough and share >= threshold else None


def _share(ends: Sequence[End]) -> float:
    return sum(end[1] for end in ends) / len(ends)


def _firing(run: RunKey, part: PartEnds, ends: SubjectEnds) -> Firing:
    failed = [end for end in part.ends if end[1]]
    return Firing(
        since=min(
            other_part.since for other_part in ends.parts.values() if other_part.since is not None
        ),
        as_of=part.ends[-1][0],
        evidence=tuple(_failure(run, run_id) for _, _, run_id in failed),
        run=run,
        facts={
            "failures": len(_row(part.ends)),
            "ends": len(part.ends),
            "ratio": _share(part.ends),
            "error": error_of(run, ends.told),
            "run": run.id,
        },
    )


def _failure(sibling: RunKey, run_id: str) -> str:
    return run_event_id(msgspec.structs.replace(sibling, id=run_id), EventType.RUN_FAILED)


FAILING_REPEATEDLY = RuleDefinition(
    rule=RuleKind.FAILING_REPEATEDLY,
    subject_kind=SubjectKind.PIPELINE,
    memory=SubjectEnds,
    event_types=(EventType.RUN_FAILED, EventType.RUN_SUCCEEDED, EventType.RUN_DETAILED),
    on_event=on_event,
    template_fields=("failures", "ends", "ratio", "error", "run"),
)
