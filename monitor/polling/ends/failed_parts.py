"""Derives the end of a flow run or plan run from its failed parts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from monitor.model.ends import run_end
from monitor.model.runs import FailedPart, RunKind, RunState, Status

# Of a job group and the flow run around it, which fail at the same time, the first is the reason.
_SIZES = {RunKind.JOB_GROUP: 0, RunKind.FLOW_RUN: 1, RunKind.PLAN_RUN: 2}


def failed_parts(parts: Iterable[RunState]) -> list[RunState]:
    """Return the parts that failed, the one that ended first at the front."""
    failed = [
        (end.at, _SIZES[part.key.kind], part.key.id, part)
        for part in parts
        if part.status is Status.FAILED and (end := run_end(part)) is not None
    ]
    return [part for *_, part in sorted(failed, key=lambda ended: ended[:3])]


def hidden_failures(run: RunKind, parts: Sequence[RunState]) -> list[RunState]:
    """Return the parts that failed inside a run that succeeded, in the order of their ends.

    A job group whose recipe has succeeded later was repeated, and hides nothing. Of a plan these
    are the flow runs in which a part failed: plans may go on after a failure by intention.
    """
    if run is RunKind.PLAN_RUN:
        return [part for part in parts if hides_failure(part)]
    return [part for part in failed_parts(parts) if not _is_repeated(part, parts)]


def hides_failure(run: RunState) -> bool:
    """True where a run is reported as succeeded although a part of it failed."""
    return run.status is Status.SUCCEEDED and run.failed_part is not None


def _is_repeated(failed: RunState, parts: Sequence[RunState]) -> bool:
    end = run_end(failed)
    return any(
        part.status is Status.SUCCEEDED
        and part.recipe is not None
        and failed.recipe is not None
        and part.recipe.id == failed.recipe.id
        and end is not None
        and (other := run_end(part)) is not None
        and other.order > end.order
        for part in parts
    )


def as_reason(part: RunState) -> FailedPart:
    """Return the failed part as the reason of what it is a part of."""
    if part.failed_part is not None:
        return part.failed_part
    named = part.recipe if part.recipe is not None and part.recipe.name else part.pipeline
    return FailedPart(
        key=part.key,
        name=named.name if named is not None else None,
        error=part.error,
        failed_at=part.finished_at,
    )


def is_final(part: RunState) -> bool:
    """True where nothing more of the part will become known."""
    return part.status.is_terminal and (
        part.detailed or part.historical or part.status is Status.LOST
    )


def latest_end(parts: Sequence[RunState]) -> datetime | None:
    """Return when the last part ended; None where one shows no end, which may be the last one."""
    ends = [part.finished_at for part in parts]
    known = [at for at in ends if at is not None]
    return max(known) if known and len(known) == len(ends) else None
