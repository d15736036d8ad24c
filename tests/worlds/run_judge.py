"""Judges the events of runs: each transition once, in order, in time, with the true end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from tests.worlds.allowances import LOST_SECONDS, REPORT_SECONDS, due
from tests.worlds.findings import Finding, Kind
from tests.worlds.received import Received, RunWord
from tests.worlds.script import NEVER, Callback, End, JobGroup, RunKind, Span, World
from tests.worlds.truth import Run, group_allowance, true_ends

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
    due_at = {end.run: end.due_at for end in true_ends(world, delivered, blind)}
    for group in world.job_groups:
        yield _expected_group(group, delivered, blind)
    for flow_run in world.flow_runs:
        key = (RunKind.FLOW_RUN, flow_run.id)
        groups = [world.group(group) for group in flow_run.job_groups]
        allowance = max(group_allowance(group) for group in groups)
        flow_due = due(flow_run.end_shown_from, allowance, blind)
        yield ExpectedRun(run=key, rows=(_row(flow_run.end),), due_at=flow_due)
    for plan_run in world.plan_runs:
        key = (RunKind.PLAN_RUN, plan_run.id)
        yield ExpectedRun(run=key, rows=(_row(plan_run.end),), due_at=due_at[key])


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


def _row(end: End) -> tuple[str, ...]:
    return (*_BEFORE, WORDS[end])


def run_findings(
    world: World, received: Received, *, delivered: Sequence[Callback], blind: Sequence[Span]
) -> Iterator[Finding]:
    """Yield what the events of runs got wrong."""
    expected = {run.run: run for run in expected_runs(world, delivered, blind)}
    for run in sorted(expected.keys() | received.runs.keys()):
        text = _problem(expected.get(run), received.runs[run])
        if text is not None:
            yield Finding(seed=world.seed, kind=Kind.EVENTS, text=f"{run[0]} {run[1]}: {text}")
    for event_id in received.ambiguous:
        yield Finding(seed=world.seed, kind=Kind.EVENTS, text=f"{event_id} came with two contents")


def _problem(expected: ExpectedRun | None, words: Sequence[RunWord]) -> str | None:
    if expected is None:
        return "there is no such run"
    row = tuple(word.word for word in words)
    if row not in expected.rows:
        wanted = " or ".join(", ".join(right) or "nothing" for right in expected.rows)
        return f"received {', '.join(row) or 'nothing'} instead of {wanted}"
    if words and expected.due_at != NEVER and words[-1].at > expected.due_at:
        return f"{row[-1]} came at {words[-1].at:.1f}, due at {expected.due_at:.1f}"
    return None
