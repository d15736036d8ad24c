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

from monitor.alerting.conditions.parts import Told, error_of, is_own, newest_error, part_of, told_at
from monitor.alerting.facts import PipelineFacts
from monitor.alerting.settings.defaults import minimum_of, threshold_of
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.alerting.verdicts import About, Condition, Heard, Judged, Right, Wrong
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.runs import RunKey, Status

_ENDS_KEPT = 20  # no threshold asks for more
_PARTS_KEPT = 50
_OVER_AT = 0.5  # of the share at which it began

End = tuple[datetime, bool, str]  # when, whether it is a failure, the run's id


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest ends, oldest first, and since when they have been too bad."""

    ends: tuple[End, ...] = ()
    since: datetime | None = None


class Ends(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Those of one subject, by part."""

    parts: dict[str, Part] = {}
    told: Told | None = None


def hear(heard: Heard[PipelineFacts], memory: Ends | None, rule: RuleSettings) -> Judged[Ends]:
    event = heard.event
    if not isinstance(event, RunEvent):
        return Judged(verdict=None, memory=memory)
    held = memory or Ends()
    told = newest_error(heard, event, held.told)
    if event.type is EventType.RUN_DETAILED or not is_own(heard, event):
        return _explained(heard, event, Ends(parts=held.parts, told=told))
    was_bad = any(one.since for one in held.parts.values())
    name = part_of(event, own=True)
    part = _with_end(held.parts.get(name) or Part(), event, rule)
    parts = sorted({**held.parts, name: part}.items(), key=lambda one: one[1].ends[-1])
    ends = Ends(parts=dict(parts[-_PARTS_KEPT:]), told=told)
    if part.since is not None and event.run.status is Status.FAILED:
        return Judged(verdict=_wrong(event.run.key, part, ends), memory=ends)
    if was_bad and all(one.since is None for one in ends.parts.values()):
        return Judged(verdict=Right(at=told_at(event), evidence=(event.id,)), memory=ends)
    return Judged(verdict=None, memory=ends)


def _explained(heard: Heard[PipelineFacts], event: RunEvent, ends: Ends) -> Judged[Ends]:
    """Something inside a run, or its job records, tell why it fails: no end of its own."""
    memory = None if ends == Ends() else ends
    bad = (one for one in ends.parts.values() if one.since is not None)
    part = next(
        (one for one in bad if heard.outermost and one.ends[-1][2] == heard.outermost.id), None
    )
    if part is None or heard.outermost is None or not event.run.error:
        return Judged(verdict=None, memory=memory)
    return Judged(verdict=_wrong(heard.outermost, part, ends), memory=memory)


def _with_end(part: Part, event: RunEvent, rule: RuleSettings) -> Part:
    """Put one end where it belongs in time, and judge the part anew."""
    end = (told_at(event), event.run.status is Status.FAILED, event.run.key.id)
    ends = [one for one in part.ends if one[2] != end[2]]
    insort(ends, end)
    threshold = threshold_of(rule)
    if threshold < 1:
        ends = ends[-_ENDS_KEPT:]
        since = _since_by_share(ends, part.since, rule, newest=end)
        return Part(ends=tuple(ends), since=since)
    count = int(threshold)
    row = _row(ends)
    # Behind the newest success nothing matters; that one does, should an older end come late.
    kept = ends[len(ends) - len(row) - 1 :] if len(row) < len(ends) else ends
    row_since = (part.since or row[count - 1][0]) if len(row) >= count else None
    return Part(ends=tuple(kept[-_ENDS_KEPT:]), since=row_since)


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


def _wrong(run: RunKey, part: Part, ends: Ends) -> Wrong:
    failed = [end for end in part.ends if end[1]]
    return Wrong(
        since=min(one.since for one in ends.parts.values() if one.since is not None),
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


FAILING_REPEATEDLY = Condition(
    rule=RuleKind.FAILING_REPEATEDLY,
    about=About.PIPELINE,
    memory=Ends,
    hears=(EventType.RUN_FAILED, EventType.RUN_SUCCEEDED, EventType.RUN_DETAILED),
    hear=hear,
    template_fields=("failures", "ends", "ratio", "error", "run"),
)
