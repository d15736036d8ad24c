"""Which events must be received of every run, and by when. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tests.worlds.allowances import LOST_SECONDS, REPORT_SECONDS, due
from tests.worlds.blindness import hidden_spans, is_missed
from tests.worlds.impairments import Span
from tests.worlds.script import Callback, End, JobGroup, RunKind, World
from tests.worlds.truth import Run, group_allowance, own_ends

WORDS = {End.COMPLETE: "succeeded", End.FAILED: "failed", End.CANCELED: "canceled"}
_BEFORE = ["queued", "started"]


class ExpectedRun(Struct, frozen=True, kw_only=True):
    """Which rows of words are right for a run, and by when the last of them must be there."""

    run: Run
    rows: tuple[tuple[str, ...], ...]
    due_at: float


def expected_runs(
    world: World, delivered: Sequence[Callback], blind: Sequence[Span]
) -> Iterator[ExpectedRun]:
    """Yield what must be received of every run."""
    due_at = {end.run: end.due_at for end in own_ends(world, blind)}
    for group in world.job_groups:
        own = [*blind, *hidden_spans(world, group.flow)]
        expected = _expected_group(group, delivered, own)
        if _may_be_lost(world, group):
            lost = (*_BEFORE, "lost")
            rows = (*expected.rows, lost, (*lost, "corrected", WORDS[group.end]))
            expected = replace(expected, rows=rows)
        yield expected
    for flow_run in world.flow_runs:
        flow_key = (RunKind.FLOW_RUN, flow_run.id)
        yield ExpectedRun(run=flow_key, rows=(_row(flow_run.end),), due_at=due_at[flow_key])
    for plan_run in world.plan_runs:
        plan_key = (RunKind.PLAN_RUN, plan_run.id)
        yield ExpectedRun(run=plan_key, rows=(_row(plan_run.end),), due_at=due_at[plan_key])


def _expected_group(
    group: JobGroup, delivered: Iterable[Callback], blind: Sequence[Span]
) -> ExpectedRun:
    key = (RunKind.JOB_GROUP, group.id)
    due_at = due(group.end_shown_from, group_allowance(group), blind)
    rows = [_row(group.end)]
    if group.deleted_at < group.end_shown_from:
        rows = [("queued", "started", "lost"), ("queued", "lost"), ()]
        due_at = due(group.deleted_at, LOST_SECONDS, blind)
    elif due_at > group.deleted_at:
        rows += [("queued", "started", "lost"), ("queued", "lost"), ()]
        due_at = due(group.deleted_at, LOST_SECONDS, blind)
    # What a callback has said before the workspace showed an end is corrected.
    lies = {
        callback.status
        for callback in delivered
        if callback.job_group == group.id
        and callback.status is not group.end
        and callback.at < due(group.end_shown_from, REPORT_SECONDS, blind)
    }
    rows += [(*_BEFORE, WORDS[lie], "corrected", WORDS[group.end]) for lie in lies]
    return ExpectedRun(run=key, rows=tuple(rows), due_at=due_at)


def _may_be_lost(world: World, group: JobGroup) -> bool:
    """True for a run that is denied while all is hidden, and too few others are that show it."""
    # While its end could not be reported, whether it was active or not was not known.
    down = [*world.outages, *world.stops, *(refused.span for refused in world.withdrawals)]
    return any(
        hiding.flows is None
        and not is_missed(world, hiding)
        and group.shown_from <= hiding.span.begin < due(group.end_shown_from, REPORT_SECONDS, down)
        for hiding in world.hidings
    )


def _row(end: End) -> tuple[str, ...]:
    return (*_BEFORE, WORDS[end])
