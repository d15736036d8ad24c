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

from monitor.alerting.facts import PipelineFacts
from monitor.alerting.parts import is_own, part_of, told_at
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


def hear(heard: Heard[PipelineFacts], memory: Ends | None, rule: RuleSettings) -> Judged[Ends]:
    event = heard.event
    if not isinstance(event, RunEvent) or not is_own(heard, event):
        return Judged(verdict=None, memory=memory)
    parts = dict(memory.parts) if memory is not None else {}
    name = part_of(event, own=True)
    was_bad = any(one.since for one in parts.values())
    parts[name] = part = _with_end(parts.get(name) or Part(), event, rule)
    parts = dict(sorted(parts.items(), key=lambda one: one[1].ends[-1])[-_PARTS_KEPT:])
    kept = Ends(parts=parts)
    if part.since is not None and event.run.status is Status.FAILED:
        return Judged(verdict=_wrong(heard, event, part, parts), memory=kept)
    if was_bad and all(one.since is None for one in parts.values()):
        return Judged(verdict=Right(at=told_at(event), evidence=(event.id,)), memory=kept)
    return Judged(verdict=None, memory=kept)


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


def _wrong(
    heard: Heard[PipelineFacts], event: RunEvent, part: Part, parts: dict[str, Part]
) -> Wrong:
    row = _row(part.ends)
    failed = [end[2] for end in part.ends if end[1]]
    return Wrong(
        since=min(one.since for one in parts.values() if one.since is not None),
        as_of=told_at(event),
        evidence=tuple(_failure(event.run.key, run_id) for run_id in failed),
        run=heard.outermost,
        facts={
            "failures": len(row),
            "ends": len(part.ends),
            "ratio": _share(part.ends),
            "error": event.run.error,
            "run": event.run.key.id,
        },
    )


def _failure(sibling: RunKey, run_id: str) -> str:
    return run_event_id(msgspec.structs.replace(sibling, id=run_id), EventType.RUN_FAILED)


FAILING_REPEATEDLY = Condition(
    rule=RuleKind.FAILING_REPEATEDLY,
    about=About.PIPELINE,
    memory=Ends,
    hears=(EventType.RUN_FAILED, EventType.RUN_SUCCEEDED),
    hear=hear,
    template_fields=("failures", "ends", "ratio", "error", "run"),
)
