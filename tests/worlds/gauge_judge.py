"""Judges what is overwritten: metrics, retained states and page data, at the end of a world."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import product

from tests.worlds.expectations import deletion_of
from tests.worlds.expected_runs import WORDS
from tests.worlds.final_faces import FinalFaces
from tests.worlds.findings import Finding, Kind
from tests.worlds.received import Received
from tests.worlds.script import NEVER, End, RunKind, World
from tests.worlds.truth import Subject, TrueEnd

_ENDS = (*WORDS.values(), "lost")
_WORST_LAST = (End.COMPLETE, End.CANCELED, End.FAILED)


def gauge_findings(
    world: World,
    ends: Sequence[TrueEnd],
    received: Received,
    faces: FinalFaces,
    *,
    until: float,
    is_store_older: bool = False,
) -> Iterator[Finding]:
    """Yield what is shown at the end and is not true. ``ends`` are those of each run itself."""
    # An older store has not counted what only the deleted one knew.
    counters = [] if is_store_older else _counters(received, faces)
    for text in (*counters, *_last_ends(world, ends, received, faces, until)):
        yield Finding(seed=world.seed, kind=Kind.GAUGES, text=text)


def _counters(received: Received, faces: FinalFaces) -> Iterator[str]:
    """Counters count what was published: the events themselves are judged elsewhere."""
    published: Counter[tuple[str, str]] = Counter(
        (kind.value, word.word)
        for (kind, _), words in received.runs.items()
        for word in words
        if word.word in _ENDS
    )
    if published != faces.ends():
        yield f"runs_total is {dict(faces.ends())}, published were {dict(published)}"
    corrected = sum(word.word == "corrected" for words in received.runs.values() for word in words)
    if corrected != faces.corrected():
        yield f"runs_corrected_total is {faces.corrected()}, published were {corrected}"


def _last_ends(
    world: World,
    ends: Sequence[TrueEnd],
    received: Received,
    faces: FinalFaces,
    until: float,
) -> Iterator[str]:
    parts: defaultdict[Subject, defaultdict[str, list[TrueEnd]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for end in ends:
        parts[end.subject][end.part].append(end)
    lost = {group.flow for group in world.job_groups if group.deleted_at < NEVER}
    for subject, by_part in parts.items():
        is_possible = any(
            end.is_only_possible or end.due_at > until for part in by_part.values() for end in part
        )
        if is_possible or subject.pipeline in lost or deletion_of(world, subject) < NEVER:
            continue  # several answers are right
        results = {WORDS[_worst(last)] for last in product(*map(_last, by_part.values()))}
        counts = [_failures(part) for part in by_part.values()]
        fewest, most = max(low for low, _ in counts), max(high for _, high in counts)
        for place, result, failures in _shown(subject, received, faces):
            if result not in results:
                yield f"{place} of {subject.pipeline}: last run {result}, not {sorted(results)}"
            if not fewest <= failures <= most:
                yield (
                    f"{place} of {subject.pipeline}: {failures} consecutive failures, "
                    f"not {fewest} to {most}"
                )


def _last(ends: Sequence[TrueEnd]) -> list[End]:
    """Return how the newest run of a part may have ended."""
    return [end.end for end in ends if not any(other.is_surely_after(end) for other in ends)]


def _worst(ends: Sequence[End]) -> End:
    return max(ends, key=_WORST_LAST.index)


def _failures(ends: Sequence[TrueEnd]) -> tuple[int, int]:
    """Return the fewest and the most failures that may lie behind the newest success."""
    failures = [end for end in ends if end.end is End.FAILED]
    successes = [end for end in ends if end.end is End.COMPLETE]
    certain = sum(
        all(failure.is_surely_after(success) for success in successes) for failure in failures
    )
    possible = sum(
        not any(success.is_surely_after(failure) for success in successes) for failure in failures
    )
    return certain, possible


def _shown(
    subject: Subject, received: Received, faces: FinalFaces
) -> Iterator[tuple[str, str | None, float]]:
    """Yield each place that shows the last result and the number of failures."""
    state = received.states.get(subject)
    last = None if state is None else state["last_run"]
    yield (
        "retained state",
        None if last is None else last["status"],
        -1 if state is None else state["consecutive_failures"],
    )
    kind = "plan" if subject.kind is RunKind.PLAN_RUN else "flow"
    rows = [
        row
        for row in faces.pipelines
        if (row["kind"], row["pipeline_id"]) == (kind, str(subject.pipeline))
    ]
    # A flow stands there once, with its flow runs where it has any.
    if not rows or rows[0]["run_kind"] == subject.kind:
        yield (
            "page data",
            rows[0]["last_status"] if rows else None,
            rows[0]["consecutive_failures"] if rows else -1,
        )
    labels = {row["pipeline"] for row in rows}
    own = [
        sample
        for sample in faces.samples
        if sample.labels.get("kind") == subject.kind and sample.labels.get("pipeline") in labels
    ]
    results = [
        sample.labels["result"]
        for sample in own
        if sample.name == "dataprep_last_run_result" and sample.value == 1
    ]
    counts = [sample.value for sample in own if sample.name == "dataprep_consecutive_failures"]
    yield ("metrics", results[0] if results else None, counts[0] if counts else -1)
