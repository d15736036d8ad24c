"""Judges the events of runs: each transition once, in order, in time, with the true end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.worlds.expected_runs import ExpectedRun, expected_runs
from tests.worlds.findings import Finding, Kind
from tests.worlds.impairments import Span
from tests.worlds.received import Received, RunWord
from tests.worlds.script import NEVER, Callback, World


def run_findings(
    world: World,
    received: Received,
    *,
    delivered: Sequence[Callback],
    blind: Sequence[Span],
    until: float,
    forgotten: Sequence[Span] = (),
) -> Iterator[Finding]:
    """Yield what the events of runs got wrong."""
    expected = {run.run: run for run in expected_runs(world, delivered, blind)}
    for run in sorted(expected.keys() | received.runs.keys()):
        text = _problem(expected.get(run), received.runs[run], until)
        if text is not None:
            yield Finding(seed=world.seed, kind=Kind.EVENTS, text=f"{run[0]} {run[1]}: {text}")
    for event_id, at in received.ambiguous.items():
        if any(span.begin <= at < span.end for span in forgotten):
            continue  # an older store has taken the place of the one that knew it
        yield Finding(seed=world.seed, kind=Kind.EVENTS, text=f"{event_id} came with two contents")


def _problem(expected: ExpectedRun | None, words: Sequence[RunWord], until: float) -> str | None:
    if expected is None:
        return "there is no such run"
    row = tuple(word.word for word in words)
    if expected.due_at > until and any(right[: len(row)] == row for right in expected.rows):
        return None  # the rest of it cannot be read yet
    if row not in expected.rows:
        wanted = " or ".join(", ".join(right) or "nothing" for right in expected.rows)
        return f"received {', '.join(row) or 'nothing'} instead of {wanted}"
    if words and expected.due_at != NEVER and words[-1].at > expected.due_at:
        return f"{row[-1]} came at {words[-1].at:.1f}, due at {expected.due_at:.1f}"
    return None
