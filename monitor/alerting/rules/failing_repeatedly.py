"""failing_repeatedly: so many failures in a row, or too many of the newest ends.

A threshold of 1 or more counts failures in a row, and one success ends it. A threshold below 1 is
a share of the newest ends; it has been reached only with some ends known, and what has reached it
is over at half of it, so that one more failure does not begin it again. Cancels count as nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from monitor.alerting.rules.contract import (
    EvaluationResult,
    EventInput,
    Firing,
    Ok,
    Quantity,
    RuleAnswer,
    RuleDefinition,
    SubjectKind,
)
from monitor.alerting.rules.part_ends import (
    RootRunEnd,
    SubjectEnds,
    all_ends,
    error_facts,
    failing_parts,
    part_of,
    pruned,
    with_end_of,
    with_error,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alerts import Severity
from monitor.model.events import EventType
from monitor.model.runs import RunKey, Status

_ENDS_KEPT = 20  # no threshold asks for more
_OVER_AT = 0.5  # of the ratio at which it began


class RepeatedFailures(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The newest ends of a subject, and since when parts of it have reached the threshold."""

    ends: SubjectEnds = SubjectEnds()
    since: dict[str, datetime] = {}  # by part


def on_event(
    event_input: EventInput, memory: RepeatedFailures | None, rule: RuleSettings
) -> RuleAnswer[RepeatedFailures]:
    before, event = memory or RepeatedFailures(), event_input.event
    ends = before.ends
    if event_input.is_own:
        ends = with_end_of(event_input, ends)
    ends = with_error(event_input, ends)
    since = _since(event_input, ends, before.since, rule)
    kept = pruned(ends, kept=_kept(rule))
    after = RepeatedFailures(ends=ends, since=since)
    result: EvaluationResult | None = None
    if since:
        is_failure = event.type is EventType.RUN_FAILED and event_input.is_own
        is_newest = ends.error != before.ends.error and _is_newest(event_input.root_run, after)
        begins = bool(since.keys() - before.since.keys())
        if begins or is_newest or (is_failure and part_of(event_input) in since):
            result = _firing(event_input, after)
    elif before.since:
        result = Ok(at=event_input.at, evidence=(event.id,))
    if kept is None:
        return RuleAnswer(result)
    return RuleAnswer(result, RepeatedFailures(ends=kept, since=since))


def _kept(rule: RuleSettings) -> int:
    return _ENDS_KEPT if rule.threshold < 1 else 0


def _since(
    event_input: EventInput, ends: SubjectEnds, before: dict[str, datetime], rule: RuleSettings
) -> dict[str, datetime]:
    """Return since when each part has reached the threshold; a start that was found stays."""
    if rule.threshold < 1:
        return _since_by_ratio(event_input, ends, before, rule)
    count = int(rule.threshold)
    return {
        part: before.get(part) or failures[count - 1].at
        for part, failures in failing_parts(ends).items()
        if len(failures) >= count
    }


def _since_by_ratio(
    event_input: EventInput, ends: SubjectEnds, before: dict[str, datetime], rule: RuleSettings
) -> dict[str, datetime]:
    """Return the parts whose ratio is reached; only the part of a new end can begin."""
    since = {
        part: began_at
        for part, began_at in before.items()
        if part in ends.parts and _ratio(newest_ends(ends, part)) > _OVER_AT * rule.threshold
    }
    part = part_of(event_input)
    newest = newest_ends(ends, part) if part in ends.parts else ()
    # A success begins nothing, although with it there may be enough ends to evaluate.
    is_failure = event_input.is_own and event_input.event.run.status is Status.FAILED
    is_enough = is_failure and len(newest) >= rule.minimum
    if part not in before and is_enough and _ratio(newest) >= rule.threshold:
        since[part] = event_input.at
    return since


def newest_ends(ends: SubjectEnds, part: str) -> Sequence[RootRunEnd]:
    """Return the newest ends of a part; a run without a recipe may have been of any part."""
    if part:
        return ends.parts[part][-_ENDS_KEPT:]
    return sorted(all_ends(ends), key=lambda end: end.order)[-_ENDS_KEPT:]


def _ratio(ends: Sequence[RootRunEnd]) -> float:
    return sum(end.status is Status.FAILED for end in ends) / len(ends)


def _is_newest(run: RunKey, failures: RepeatedFailures) -> bool:
    """True where the run is the newest end of a part that has reached the threshold."""
    return any(newest_ends(failures.ends, part)[-1].run_id == run.id for part in failures.since)


def _firing(event_input: EventInput, failures: RepeatedFailures) -> Firing:
    part = part_of(event_input)
    if part not in failures.since:
        part = max(failures.since, key=lambda name: newest_ends(failures.ends, name)[-1].order)
    ends = newest_ends(failures.ends, part)
    failed = [end for end in ends if end.status is Status.FAILED]
    row = failing_parts(failures.ends).get(part, ())
    run = msgspec.structs.replace(event_input.root_run, id=failed[-1].run_id)
    return Firing(
        since=min(failures.since.values()),
        as_of=ends[-1].at,
        evidence=tuple(end.event_id for end in failed if end.event_id),
        run=run,
        facts={
            "failures": len(row),
            "ends": len(ends),
            "ratio": _ratio(ends),
            **error_facts(run, failures.ends.error),
            "run": run.id,
        },
    )


DEFINITION: RuleDefinition[RepeatedFailures, None] = RuleDefinition(
    rule=RuleKind.FAILING_REPEATEDLY,
    subject_kind=SubjectKind.PIPELINE,
    memory=RepeatedFailures,
    event_types=(
        EventType.RUN_FAILED,
        EventType.RUN_SUCCEEDED,
        EventType.RUN_CANCELED,
        EventType.RUN_DETAILED,
        EventType.RUN_CONFIRMED,
    ),
    on_event=on_event,
    keeps_ends=True,
    about="A pipeline failed so often in a row, or so large a part of its last runs.",
    severity=Severity.CRITICAL,
    summary="{pipeline} {keeps|kept} failing in {workspace}",
    description="{failures} of the last {ends} runs failed, the last with: {error}",
    template_fields=("failures", "ends", "ratio", "error", "part", "run"),
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
