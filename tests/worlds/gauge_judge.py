"""Judges what is overwritten: metrics, retained states and page data, at the end of a world."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

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

    def is_judged(subject: Subject) -> bool:
        is_possible = any(
            end.is_only_possible or end.due_at > until
            for part in parts.get(subject, {}).values()
            for end in part
        )  # then several answers are right
        is_deleted = deletion_of(world, subject) < NEVER
        return not (is_possible or subject.pipeline in lost or is_deleted)

    for subject in filter(is_judged, parts):
        by_part = parts[subject].values()
        newest = {WORDS[last] for last in _last([end for part in by_part for end in part])}
        worst = {WORDS[_worst(last)] for last in product(*map(_last, by_part))}
        failures = _most_failures(by_part)
        yield from _wrong(subject, _of_state(subject, received), newest, failures)
        yield from _wrong(subject, _of_metrics(subject, faces), worst, failures)
    for subjects in dict.fromkeys(map(_subjects_beside, parts)):
        if all(map(is_judged, subjects)):
            own, counted = _of_pipeline(world, [parts.get(subject, {}) for subject in subjects])
            newest = {WORDS[last] for last in _last(own)}
            row = _of_row(subjects[0], faces)
            yield from _wrong(subjects[0], row, newest, _most_failures(counted))


def _subjects_beside(subject: Subject) -> tuple[Subject, ...]:
    """Return the subjects of the same flow or plan, by kind of run."""
    if subject.kind is RunKind.PLAN_RUN:
        return (subject,)
    kinds = RunKind.FLOW_RUN, RunKind.JOB_GROUP
    return tuple(Subject(kind, subject.pipeline) for kind in kinds)


def _of_pipeline(
    world: World, by_subject: Sequence[Mapping[str, list[TrueEnd]]]
) -> tuple[list[TrueEnd], list[list[TrueEnd]]]:
    """Return the ends of a pipeline's own runs, and those that count for each part of it.

    A job group inside a flow run is no run of its own; its success counts for its recipe.
    """
    inside = {
        (RunKind.JOB_GROUP, group.id) for group in world.job_groups if group.flow_run is not None
    }
    own, counted = list[TrueEnd](), list[list[TrueEnd]]()
    for by_part in by_subject:
        for ends in by_part.values():
            alone = [end for end in ends if end.run not in inside]
            own += alone
            if alone:
                counted.append([end for end in ends if end in alone or end.end is End.COMPLETE])
    return own, counted


def _most_failures(parts: Iterable[Sequence[TrueEnd]]) -> tuple[int, int]:
    counts = [_failures(part) for part in parts]
    return max((low for low, _ in counts), default=0), max((high for _, high in counts), default=0)


def _wrong(
    subject: Subject,
    shown: tuple[str, str | None, float],
    results: Collection[str],
    failures: tuple[int, int],
) -> Iterator[str]:
    (place, result, count), (fewest, most) = shown, failures
    if result not in results:
        yield f"{place} of {subject.pipeline}: last run {result}, not {sorted(results)}"
    if not fewest <= count <= most:
        yield (
            f"{place} of {subject.pipeline}: {count} consecutive failures, not {fewest} to {most}"
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


def _of_state(subject: Subject, received: Received) -> tuple[str, str | None, float]:
    """Return the newest end, and the failures of the worst part."""
    state = received.states.get(subject)
    if state is None:
        return "retained state", None, -1
    last = state["last_run"]
    return "retained state", None if last is None else last["status"], state["consecutive_failures"]


def _rows(subject: Subject, faces: FinalFaces) -> list[dict[str, Any]]:
    kind = "plan" if subject.kind is RunKind.PLAN_RUN else "flow"
    pipeline = kind, str(subject.pipeline)
    return [row for row in faces.pipelines if (row["kind"], row["pipeline_id"]) == pipeline]


def _of_row(subject: Subject, faces: FinalFaces) -> tuple[str, str | None, float]:
    """Return the newest end of whatever ran it, and the failures of the worst part."""
    rows = _rows(subject, faces)
    if not rows:
        return "page data", None, -1
    return "page data", rows[0]["last_status"], rows[0]["consecutive_failures"]


def _of_metrics(subject: Subject, faces: FinalFaces) -> tuple[str, str | None, float]:
    """Return the end and the failures of the worst part."""
    labels = {row["pipeline"] for row in _rows(subject, faces)}
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
    return "metrics", results[0] if results else None, counts[0] if counts else -1
