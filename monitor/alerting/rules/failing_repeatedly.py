"""failing_repeatedly: so many failures in a row, or too many of the newest ends.

A threshold of 1 or more counts failures in a row, and one success ends it. A threshold below 1 is
a share of the newest ends; it has been reached only with some ends known, and what has reached it
is over at half of it, so that one more failure does not begin it again. Cancels count as nothing.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Struct

from monitor.alerting.rules.contract import (
    EventInput,
    Firing,
    Ok,
    Quantity,
    RuleAnswer,
    RuleDefinition,
    SubjectKind,
)
from monitor.alerting.rules.failed_parts import (
    RunError,
    error_of,
    newest_error,
    part_of,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alerts import Severity
from monitor.model.events import EventType, run_event_id
from monitor.model.runs import RunKey, Status

_ENDS_KEPT = 20  # no threshold asks for more
_PARTS_KEPT = 50
_OVER_AT = 0.5  # of the ratio at which it began


class End(NamedTuple):
    at: datetime
    is_failure: bool
    run_id: str


class PartEnds(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest ends, oldest first, and since when they have reached the threshold."""

    ends: tuple[End, ...] = ()
    since: datetime | None = None


class SubjectEnds(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Those of one subject, by part."""

    parts: dict[str, PartEnds] = {}
    error: RunError | None = None


def on_event(
    event_input: EventInput, memory: SubjectEnds | None, rule: RuleSettings
) -> RuleAnswer[SubjectEnds]:
    event, before = event_input.event, memory or SubjectEnds()
    error = newest_error(event_input, before.error)
    if event.type is EventType.RUN_DETAILED or not event_input.is_own:
        return _late_error(event_input, SubjectEnds(parts=before.parts, error=error))
    was_firing = any(part.since for part in before.parts.values())
    name = part_of(event_input)
    part = _with_end(before.parts.get(name) or PartEnds(), event_input, rule)
    parts = sorted({**before.parts, name: part}.items(), key=lambda named: named[1].ends[-1])
    ends = SubjectEnds(parts=dict(parts[-_PARTS_KEPT:]), error=error)
    if part.since is not None and event.run.status is Status.FAILED:
        return RuleAnswer(_firing(event.run.key, part, ends), ends)
    if was_firing and all(part.since is None for part in ends.parts.values()):
        return RuleAnswer(Ok(at=event_input.at, evidence=(event.id,)), ends)
    return RuleAnswer(None, ends)


def _late_error(event_input: EventInput, ends: SubjectEnds) -> RuleAnswer[SubjectEnds]:
    """Add the error that something inside the run, or its job records, report later."""
    memory = None if ends == SubjectEnds() else ends
    if not event_input.event.run.error:
        return RuleAnswer(None, memory)
    root = event_input.root_run
    firing = (part for part in ends.parts.values() if part.since is not None)
    part = next((part for part in firing if part.ends[-1].run_id == root.id), None)
    return RuleAnswer(None if part is None else _firing(root, part, ends), memory)


def _with_end(part: PartEnds, event_input: EventInput, rule: RuleSettings) -> PartEnds:
    """Insert one end by its time, and evaluate the part anew."""
    run = event_input.event.run
    end = End(event_input.at, run.status is Status.FAILED, run.key.id)
    ends = [known for known in part.ends if known.run_id != end.run_id]
    insort(ends, end)
    if rule.threshold < 1:
        ends = ends[-_ENDS_KEPT:]
        since = _since_by_ratio(ends, part.since, rule, newest=end)
        return PartEnds(ends=tuple(ends), since=since)
    count = int(rule.threshold)
    row = _row(ends)
    # Behind the newest success nothing matters; that one does, should an older end come late.
    kept = ends[len(ends) - len(row) - 1 :] if len(row) < len(ends) else ends
    row_since = (part.since or row[count - 1].at) if len(row) >= count else None
    return PartEnds(ends=tuple(kept[-_ENDS_KEPT:]), since=row_since)


def _row(ends: Sequence[End]) -> Sequence[End]:
    """Return the failures since the newest success."""
    newest = max((index for index, end in enumerate(ends) if not end.is_failure), default=-1)
    return ends[newest + 1 :]


def _since_by_ratio(
    ends: Sequence[End], since: datetime | None, rule: RuleSettings, *, newest: End
) -> datetime | None:
    """``newest`` is the end reported last, which need not be the last one of ``ends``."""
    ratio = _ratio(ends)
    if since is not None:
        return since if ratio > _OVER_AT * rule.threshold else None
    # A success begins nothing, although with it there may be enough ends to evaluate.
    is_enough = newest.is_failure and len(ends) >= rule.minimum
    return newest.at if is_enough and ratio >= rule.threshold else None


def _ratio(ends: Sequence[End]) -> float:
    return sum(end.is_failure for end in ends) / len(ends)


def _firing(run: RunKey, part: PartEnds, ends: SubjectEnds) -> Firing:
    keys = [msgspec.structs.replace(run, id=end.run_id) for end in part.ends if end.is_failure]
    return Firing(
        since=min(part.since for part in ends.parts.values() if part.since is not None),
        as_of=part.ends[-1].at,
        evidence=tuple(run_event_id(key, EventType.RUN_FAILED) for key in keys),
        run=run,
        facts={
            "failures": len(_row(part.ends)),
            "ends": len(part.ends),
            "ratio": _ratio(part.ends),
            "error": error_of(run, ends.error),
            "run": run.id,
        },
    )


DEFINITION: RuleDefinition[SubjectEnds, None] = RuleDefinition(
    rule=RuleKind.FAILING_REPEATEDLY,
    subject_kind=SubjectKind.PIPELINE,
    memory=SubjectEnds,
    event_types=(EventType.RUN_FAILED, EventType.RUN_SUCCEEDED, EventType.RUN_DETAILED),
    on_event=on_event,
    about="A pipeline failed so often in a row, or so large a part of its last runs.",
    severity=Severity.CRITICAL,
    summary="{pipeline} keeps failing in {workspace}",
    description="{failures} of the last {ends} runs failed, the last with: {error}",
    template_fields=("failures", "ends", "ratio", "error", "run"),
    threshold=Quantity(
        about="1 and more: failures in a row; below 1: the failed part of the last runs, over "
        "at half of it",
        default=3,
        least=0.01,
        most=20,
        is_count=True,
    ),
    minimum=Quantity(about="runs that a part is taken of", default=4, least=2, most=20),
    reminders_inhibited_by=(RuleKind.WORKSPACE_UNREACHABLE,),
)
