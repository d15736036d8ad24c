"""The known ends of a subject, and what they show; shared by rules about ends of runs. Pure.

An alert is about a pipeline and a kind of run, not about one run. The recipes of job groups that
run by themselves are *parts* of their flow; every other run is of the whole. A part fails while its
newest failure sorts after its newest success, by when they happened. So whatever the order in which
ends are observed, and however often a better time is, the same ends give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import chain

import msgspec
from msgspec import Struct

from monitor.alerting.rules.contract import (
    EvaluationResult,
    EventInput,
    Facts,
    Firing,
    Ok,
    OverWhenSeen,
    RuleAnswer,
)
from monitor.model.ends import RunEnd, newest_success, open_failures, with_end, without_run
from monitor.model.events import STATUS_EVENTS, EventType, end_event_id
from monitor.model.runs import RunKey, Status

_ERROR_KEPT = 1_000  # characters
_PARTS_KEPT = 100
_ENDS_KEPT = 20  # of one part, newest, besides its newest success
_INNER_KEPT = 20  # failures inside one root run, the first ones
_EARLIER_KEPT = 2  # ends before the newest success: they tell when what is seen late was over
FEW_PARTS = 10  # of more, nothing is kept before their newest successes
_WHOLE = ""  # the part that stands for a pipeline without parts, and for an unknown part


class RootRunEnd(RunEnd, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The end of a root run, or a failure inside it before it has ended itself."""

    event_id: str = ""  # of the first failure; empty where it made no event
    # The runs that failed inside it, and when each ended.
    inner: dict[str, datetime] = msgspec.field(default_factory=dict)
    is_inner: bool = False  # the run itself has not ended yet
    cleared_at: datetime | None = None  # a run around it succeeded then


class RunError(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest error inside a root run. The run itself mostly has none."""

    run: str
    error: str | None = None
    part: str | None = None  # name of what failed


class SubjectEnds(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The ends of one subject that still matter, by part and in order."""

    parts: dict[str, tuple[RootRunEnd, ...]] = {}
    error: RunError | None = None


def part_of(event_input: EventInput) -> str:
    """Return the recipe of a job group that runs by itself."""
    recipe = event_input.event.run.recipe
    return recipe.id if event_input.is_own and recipe is not None else _WHOLE


def with_end_of(
    event_input: EventInput, before: SubjectEnds, *, bad: Status = Status.FAILED
) -> SubjectEnds:
    """Return the ends with what the event shows; ``before`` itself where it shows nothing new."""
    if event_input.cleared:
        return _with_cleared(event_input, before)
    known = _known_end(before, event_input.root_run.id)
    end = _end_of(event_input, known)
    if end is None:
        return before
    counts = end.status in (bad, Status.SUCCEEDED, Status.FAILED)
    is_void = end.is_inner and not end.inner
    if not counts and (known is None or (known.is_inner and not is_void)):
        return before  # canceling a run does not undo what failed inside it
    if bad is not Status.FAILED and end.status is Status.FAILED:
        # To the others a failure is an end like any: it clears.
        end = msgspec.structs.replace(end, status=Status.SUCCEEDED)
    parts = dict(before.parts)
    if known is not None:
        # Which part a run is of may become known after its end.
        parts = {name: without_run(ends, end.run_id) for name, ends in parts.items()}
    if counts:
        part = part_of(event_input)
        parts[part] = with_end(parts.get(part, ()), end)
    after = {name: ends for name, ends in parts.items() if ends}
    return before if after == before.parts else SubjectEnds(parts=after, error=before.error)


def _with_cleared(event_input: EventInput, before: SubjectEnds) -> SubjectEnds:
    """Return the ends, those inside the run that succeeded cleared by it."""
    ids = {key.id for key in event_input.cleared}
    parts = {
        name: tuple(
            msgspec.structs.replace(end, cleared_at=event_input.at)
            if end.run_id in ids and end.status is not Status.SUCCEEDED
            else end
            for end in part
        )
        for name, part in before.parts.items()
    }
    return SubjectEnds(parts=parts, error=before.error)


def pruned(ends: SubjectEnds, *, kept: int = 0, bad: Status = Status.FAILED) -> SubjectEnds | None:
    """Return what still matters; None for nothing.

    Far before a success with a settled time nothing does, save for the newest ``kept`` ends.
    """
    earlier = _EARLIER_KEPT if len(ends.parts) <= FEW_PARTS else 0
    parts = {name: _pruned(part, kept, earlier) for name, part in ends.parts.items()}
    if len(parts) > _PARTS_KEPT:
        # What fails stays: it would be over without ever having succeeded.
        failing = failing_parts(ends, bad=bad)
        newest = sorted(parts.items(), key=lambda named: (named[0] in failing, named[1][-1].order))
        parts = dict(newest[-_PARTS_KEPT:])
    return SubjectEnds(parts=parts, error=ends.error) if parts else None


def all_ends(ends: SubjectEnds) -> Iterable[RootRunEnd]:
    return chain.from_iterable(ends.parts.values())


def _known_end(ends: SubjectEnds, run_id: str) -> RootRunEnd | None:
    for end in all_ends(ends):
        if end.run_id == run_id:
            return end
    return None


def failing_parts(
    ends: SubjectEnds, *, bad: Status = Status.FAILED
) -> dict[str, tuple[RootRunEnd, ...]]:
    """Return the open failures of each part that fails, oldest first."""
    failed = [part for part, known in ends.parts.items() if any(end.status is bad for end in known)]
    if not failed:
        return {}
    found = {
        part: tuple(
            end
            for end in open_failures(_relevant(ends, part, bad), bad=bad)
            if end.cleared_at is None or end.at > end.cleared_at
        )
        for part in failed
    }
    return {part: failures for part, failures in found.items() if failures}


def failing_since(ends: SubjectEnds, failing: dict[str, tuple[RootRunEnd, ...]]) -> datetime:
    """Return when the oldest open failure happened."""
    return min(_began(ends, part, failures) for part, failures in failing.items())


def with_error(event_input: EventInput, ends: SubjectEnds) -> SubjectEnds:
    """Return the ends with the reason that the event shows, where that of its run is not better."""
    run, known, root = event_input.event.run, ends.error, event_input.root_run.id
    if run.status is not Status.FAILED:
        return ends
    part = run.failed_part
    name = part.name if part is not None else run.recipe.name if run.recipe else None
    error = run.error[:_ERROR_KEPT] if run.error else None
    if name is None and run.pipeline is not None and not event_input.is_own:
        name = run.pipeline.name
    if error is None and name is None:
        return ends
    if known is not None and known.run != root and _is_of_older(event_input, ends, known.run):
        return ends  # the reason of an older failure, read late
    if known is not None and known.run == root:
        # The root run repeats the reason of its part; what has a reason is not replaced by nothing.
        error, name = error or known.error, name or known.part
    newest = RunError(run=root, error=error, part=name)
    return ends if newest == known else SubjectEnds(parts=ends.parts, error=newest)


def _is_of_older(event_input: EventInput, ends: SubjectEnds, run_id: str) -> bool:
    """True where the event is about a root run that ended before this one, which failed."""
    end, other = _known_end(ends, run_id), _known_end(ends, event_input.root_run.id)
    ended = other or (event_input.end if event_input.is_own else None)
    is_failure = end is not None and end.status is Status.FAILED
    return is_failure and ended is not None and end is not None and end.order > ended.order


def error_facts(run: RunKey, newest: RunError | None) -> Facts:
    """Return the reason of this run, where it is the newest one that is known."""
    is_known = newest is not None and newest.run == run.id
    return {
        "error": newest.error if newest is not None and is_known else None,
        "part": newest.part if newest is not None and is_known else None,
    }


def answer(
    event_input: EventInput,
    before: SubjectEnds,
    after: SubjectEnds,
    *,
    facts: Callable[[RunKey], Facts] = lambda _: {},
    bad: Status = Status.FAILED,
) -> RuleAnswer[SubjectEnds]:
    """Return what the ends show, now that the event is among them, with facts of what is shown."""
    event = event_input.event
    failing, failed = failing_parts(after, bad=bad), failing_parts(before, bad=bad)
    is_failure = event.type is STATUS_EVENTS[bad]
    result: EvaluationResult | None = None
    if failing:
        if is_failure or not failed or after.error != before.error:
            result = _firing(event_input, after, failing, facts, bad)
    elif is_failure:
        result = _over_when_seen(event_input, before, after, facts, bad)
    elif failed:
        result = Ok(at=_cleared_at(event_input, failed, after), evidence=(event.id,))
    elif event.type is EventType.RUN_SUCCEEDED and event_input.is_own:
        result = Ok(at=event_input.at, evidence=(event.id,))
    return RuleAnswer(result, pruned(after, bad=bad))


def _firing(
    event_input: EventInput,
    ends: SubjectEnds,
    failing: dict[str, tuple[RootRunEnd, ...]],
    facts: Callable[[RunKey], Facts],
    bad: Status,
) -> Firing:
    event, root = event_input.event, event_input.root_run
    # Also where an older failure is observed after it: what is shown is of one run.
    newest = max((end for part in failing.values() for end in part), key=lambda end: end.order)
    run = msgspec.structs.replace(root, id=newest.run_id)
    # Otherwise a better time or a correction shows that an earlier failure is open.
    evidence = event.id if event.type is STATUS_EVENTS[bad] else newest.event_id
    return Firing(
        since=failing_since(ends, failing),
        as_of=event_input.at,
        # What ended before we followed made no event that could be shown.
        evidence=(evidence,) if evidence and not event.run.historical else (),
        run=run,
        facts=_shown(event_input, run, facts),
    )


def _shown(event_input: EventInput, run: RunKey, facts: Callable[[RunKey], Facts]) -> Facts:
    """Return the facts of a root run; the event names what failed inside its own."""
    is_own = run == event_input.root_run
    return {**facts(run), "run": event_input.event.run.key.id if is_own else run.id}


def _end_of(event_input: EventInput, known: RootRunEnd | None) -> RootRunEnd | None:
    """Return what the event shows of the end of its root run; None where it shows none."""
    run, end = event_input.event.run, event_input.end
    if end is None or (run.unconfirmed_end is not None and run.status is Status.SUCCEEDED):
        return None  # knowing the secret must not be enough to hide a failure
    is_failure = run.status is Status.FAILED
    event_id = end_event_id(event_input.event.run) if is_failure and not run.historical else ""
    if event_input.is_own:
        return RootRunEnd(
            run_id=end.run_id,
            status=end.status,
            earliest=end.earliest,
            latest=end.latest,
            may_improve=end.may_improve,
            event_id=(known.event_id if known and is_failure else "") or event_id,
            inner=known.inner if known is not None and is_failure else {},
            cleared_at=known.cleared_at if known is not None else None,
        )
    return _with_inner(event_input, known, end)


def _with_inner(
    event_input: EventInput, known: RootRunEnd | None, end: RunEnd
) -> RootRunEnd | None:
    """Return the root run with a failure inside it, or without one that was none.

    Without any it is void, and its status counts for nothing.
    """
    if end.status is Status.FAILED and event_input.root_succeeded:
        return None
    inner = dict(known.inner) if known is not None else {}
    name = str(event_input.event.run.key)
    if end.status is Status.FAILED:
        inner[name] = end.at
    elif inner.pop(name, None) is None:
        return None
    first = dict(sorted(inner.items(), key=lambda failure: failure[1])[:_INNER_KEPT])
    if known is not None and not known.is_inner:
        is_failure = known.status is Status.FAILED
        return msgspec.structs.replace(known, inner=first) if is_failure else None
    latest = max(first.values(), default=end.at)
    return RootRunEnd(
        run_id=event_input.root_run.id,
        status=Status.FAILED if first else Status.CANCELED,
        earliest=latest,
        latest=latest,
        may_improve=True,
        event_id=known.event_id if known is not None else end_event_id(event_input.event.run),
        inner=first,
        is_inner=True,
        cleared_at=known.cleared_at if known is not None else None,
    )


def _pruned(ends: Sequence[RootRunEnd], kept: int, earlier: int) -> tuple[RootRunEnd, ...]:
    """Drop what no later event can bring back: what lies far before a success that is settled."""
    success = len(ends) - 1  # the newest one that is settled
    while success >= 0 and (
        ends[success].may_improve or ends[success].status is not Status.SUCCEEDED
    ):
        success -= 1
    first = max(min(success - earlier, len(ends) - kept), 0)
    first = max(first, len(ends) - max(_ENDS_KEPT, kept))
    recent = tuple(ends[first:])
    return recent if success < 0 or success >= first else (ends[success], *recent)


def _relevant(ends: SubjectEnds, part: str, bad: Status) -> list[RootRunEnd]:
    """Return the failures of the part and every success that clears them.

    A run without a recipe may have been of any part, so its success clears each, and a failure
    without one is cleared by any.
    """
    own = [end for end in ends.parts.get(part, ()) if end.status is bad]
    clearing = ends.parts if part == _WHOLE else (part, _WHOLE)
    successes = (
        end
        for name in clearing
        for end in ends.parts.get(name, ())
        if end.status is Status.SUCCEEDED
    )
    return [*own, *successes]


def _began(ends: SubjectEnds, part: str, failures: Sequence[RootRunEnd]) -> datetime:
    """Return when the first failure happened; what failed inside may come before its run's end."""
    success = newest_success(_relevant(ends, part, Status.SUCCEEDED))
    inner = (
        failed_at
        for failure in failures
        for failed_at in failure.inner.values()
        if success is None or failed_at >= success.at
    )
    return min((*inner, failures[0].at))


def _over_when_seen(
    event_input: EventInput,
    before: SubjectEnds,
    ends: SubjectEnds,
    facts: Callable[[RunKey], Facts],
    bad: Status,
) -> OverWhenSeen | None:
    """Return a failure that was over before it was observed; None where its run ended well."""
    run_id = event_input.root_run.id
    is_known = any(end.run_id == run_id and end.status is bad for end in all_ends(before))
    for part, known in ends.parts.items():
        failure = next((end for end in known if end.run_id == run_id and end.status is bad), None)
        until = None if failure is None else _first_success_after(ends, part, failure)
        if failure is not None and until is not None:
            return OverWhenSeen(
                since=min((*failure.inner.values(), failure.at)),
                until=until.at,
                evidence=() if event_input.event.run.historical else (event_input.event.id,),
                run=event_input.root_run,
                facts=_shown(event_input, event_input.root_run, facts),
                is_known=is_known,
            )
    return None


def _first_success_after(ends: SubjectEnds, part: str, failure: RootRunEnd) -> RootRunEnd | None:
    successes = (
        end
        for end in _relevant(ends, part, Status.SUCCEEDED)
        if end.status is Status.SUCCEEDED and end.order > failure.order
    )
    return min(successes, key=lambda end: end.order, default=None)


def _cleared_at(
    event_input: EventInput, failed: dict[str, tuple[RootRunEnd, ...]], after: SubjectEnds
) -> datetime:
    """Return when the last part that failed had succeeded again."""
    now_known = {end.run_id: end for end in all_ends(after)}
    instants = [
        success.at
        for part, failures in failed.items()
        for failure in failures
        if (success := _first_success_after(after, part, now_known.get(failure.run_id, failure)))
        is not None
    ]
    # Without a success the failure was none: the workspace corrected it.
    return max(instants, default=event_input.at)
