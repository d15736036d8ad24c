"""Judges the events of runs: each transition once, in order, in time, with the true end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.worlds.alert_judge import active_spans
from tests.worlds.allowances import REPORT_SECONDS, due
from tests.worlds.expected_runs import WORDS, ExpectedRun, expected_runs
from tests.worlds.findings import Finding, Kind
from tests.worlds.impairments import Span
from tests.worlds.received import Received, RunWord
from tests.worlds.script import NEVER, Callback, RunKind, World
from tests.worlds.truth import Subject

LOST = "lost"
_RULE_ABOUT_LOST = "run_lost"
_ENDS = [[word] for word in (*WORDS.values(), LOST)]
_AFTER_END = ("confirmed", "detailed")  # behind an end, in this order and once each


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
        words = _without_repeated_confirmation(received.runs[run], forgotten)
        is_forgotten = any(
            span.begin <= word.at < span.end for span in forgotten for word in words[-1:]
        )
        # What only the deleted store knew may never come to light again.
        text = _problem(expected.get(run), words, -1.0 if is_forgotten else until)
        if text is not None and _problem(
            expected.get(run), _without_forgotten_ends(words, forgotten), until
        ):
            yield Finding(seed=world.seed, kind=Kind.EVENTS, text=f"{run[0]} {run[1]}: {text}")
    for event_id, at in received.ambiguous.items():
        if any(span.begin <= at < span.end for span in forgotten):
            continue  # an older store has taken the place of the one that knew it
        yield Finding(seed=world.seed, kind=Kind.EVENTS, text=f"{event_id} came with two contents")


def _without_repeated_confirmation(
    words: Sequence[RunWord], forgotten: Sequence[Span]
) -> list[RunWord]:
    """Return the words; a newer store confirms again what a repeated callback tells it."""
    since = min((span.begin for span in forgotten), default=NEVER)
    return [word for word in words if word.word != "confirmed" or word.at < since]


def _without_forgotten_ends(words: Sequence[RunWord], forgotten: Sequence[Span]) -> list[RunWord]:
    """Return the words; an older store does not correct an end that only the newer one knew."""
    return [
        word
        for word in words
        if [word.word] not in _ENDS
        or not any(span.begin <= word.at < span.end for span in forgotten)
    ]


def lost_findings(
    world: World, received: Received, stops: Sequence[Span], until: float
) -> Iterator[Finding]:
    """Yield lost runs without an alert, and alerts about runs that were not lost."""
    lost = {
        run: word.at for run, words in received.runs.items() for word in words if word.word == LOST
    }
    alerts = {
        subject: words
        for (rule, subject), words in received.alerts.items()
        if rule == _RULE_ABOUT_LOST
    }
    named = {run for words in alerts.values() for word in words for run in word.evidence}
    for run in sorted(named - lost.keys()):
        text = f"{_RULE_ABOUT_LOST} fired about {run[0]} {run[1]}, which was not lost"
        yield Finding(seed=world.seed, kind=Kind.FALSE_RED, text=text)
    flows = {(RunKind.JOB_GROUP, group.id): group.flow for group in world.job_groups}
    for run in sorted(lost.keys() & flows.keys()):
        # Several lost runs of a pipeline have one alert.
        words = alerts.get(Subject(run[0], flows[run]), [])
        due_at = due(lost[run], REPORT_SECONDS, stops)
        active = active_spans(words, until)
        if not any(span.begin <= due_at and lost[run] <= span.end for span in active):
            text = f"{run[0]} {run[1]} was lost at {lost[run]:.1f}, and no alert says so"
            yield Finding(seed=world.seed, kind=Kind.FALSE_GREEN, text=text)


def _problem(expected: ExpectedRun | None, words: Sequence[RunWord], until: float) -> str | None:
    if expected is None:
        return "there is no such run"
    if (text := _problem_after_end([word.word for word in words])) is not None:
        return text
    words = [word for word in words if word.word not in _AFTER_END]
    row = tuple(word.word for word in words)
    if expected.due_at > until and any(right[: len(row)] == row for right in expected.rows):
        return None  # the rest of it cannot be read yet
    if row not in expected.rows:
        wanted = " or ".join(", ".join(right) or "nothing" for right in expected.rows)
        return f"received {', '.join(row) or 'nothing'} instead of {wanted}"
    if words and expected.due_at != NEVER and words[-1].at > expected.due_at:
        return f"{row[-1]} came at {words[-1].at:.1f}, due at {expected.due_at:.1f}"
    return None


def _problem_after_end(row: Sequence[str]) -> str | None:
    after = [word for word in _AFTER_END if word in row]
    if not after or (row[-len(after) :] == after and row[-len(after) - 1 : -len(after)] in _ENDS):
        return None
    return f"received {', '.join(row)}: not {' and '.join(after)} behind the end"
