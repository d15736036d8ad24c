"""Judges alerts: active when something fails, never otherwise, and with the right start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from tests.worlds.allowances import FOR_SECONDS
from tests.worlds.configuration import LASTING
from tests.worlds.expectations import Stretch, certain_failures, possible_failures, stretches
from tests.worlds.findings import Finding, Kind
from tests.worlds.impairments import Span
from tests.worlds.play import Played
from tests.worlds.received import AlertWord, OtherAlertWord, Received
from tests.worlds.script import RunKind, World
from tests.worlds.truth import Run, Subject, TrueEnd

RULE = "run_failed"
REPEATED = "failing_repeatedly"
_IN_A_ROW = 3  # failures of a part that this rule waits for, by default
_INSTANT_SECONDS = 4.0  # an alert that was over when it was seen is active for no longer
_LONGEST_SECONDS = 86_400.0  # no world is so long; what is never known has no later time
_STAMP_SECONDS = 1.5  # stamps may be cut to their seconds
_LATENCY_SECONDS = 12.0  # between what a rule knew and the arrival of what it said
_LASTING_SLACK_SECONDS = 10.0


def alert_findings(
    world: World, ends: Sequence[TrueEnd], received: Received, played: Played
) -> Iterator[Finding]:
    """Yield what the alerts about failures got wrong."""
    blind = played.blind[world.name]
    subjects = {end.subject for end in ends} | {subject for _, subject in received.alerts}
    for subject in sorted(subjects, key=lambda subject: (subject.kind, subject.pipeline)):
        expected = stretches(world, subject, ends, blind, played.until)
        for rule, for_seconds in ((RULE, 0.0), (LASTING, FOR_SECONDS)):
            active = active_spans(received.alerts[rule, subject], played.until)
            yield from _false_reds(world, rule, subject, expected, active, played)
            yield from _false_greens(world, rule, subject, expected, received, played, for_seconds)
        repeated = [_only_repeated(stretch) for stretch in expected]
        active = active_spans(received.alerts[REPEATED, subject], played.until)
        yield from _false_reds(world, REPEATED, subject, repeated, active, played)
        yield from _false_greens(world, REPEATED, subject, repeated, received, played, 0.0)
        yield from _wrong_starts(world, subject, ends, received, played)
        yield from _wrong_marks(world, subject, ends, received)


def _only_repeated(stretch: Stretch) -> Stretch:
    """Return the stretch with the failures of those parts that failed often in a row."""
    return replace(stretch, must=_repeated(stretch.must), may=_repeated(stretch.may))


def _repeated(failures: Sequence[TrueEnd]) -> tuple[TrueEnd, ...]:
    runs: defaultdict[str, set[Run]] = defaultdict(set)
    for failure in failures:
        runs[failure.part].add(failure.run)
    return tuple(failure for failure in failures if len(runs[failure.part]) >= _IN_A_ROW)


def active_spans(words: Sequence[AlertWord | OtherAlertWord], until: float) -> list[Span]:
    """Return when an alert was active, as a subscriber knows it."""
    spans: list[Span] = []
    begin: float | None = None
    for word in words:
        if word.word == "fired" and begin is None:
            begin = word.at
        elif word.word == "resolved" and begin is not None:
            spans.append(Span(begin, word.at))
            begin = None
    if begin is not None:
        spans.append(Span(begin, until))
    return spans


def _false_reds(
    world: World,
    rule: str,
    subject: Subject,
    expected: Sequence[Stretch],
    active: Sequence[Span],
    played: Played,
) -> Iterator[Finding]:
    for span in active:
        if span.end - span.begin <= _INSTANT_SECONDS or _is_forgotten(span, played):
            continue
        quiet = [
            stretch
            for stretch in expected
            if not stretch.may and _overlap(span, stretch) > _INSTANT_SECONDS
        ]
        if quiet:
            yield Finding(
                seed=world.seed,
                kind=Kind.FALSE_RED,
                text=f"{rule} about {_named(subject)} is active {_shown(span)}, and nothing "
                f"fails from {quiet[0].begin:.1f} to {quiet[0].end:.1f}",
            )


def _is_forgotten(span: Span, played: Played) -> bool:
    """True for an alert known only to a store that an older one has replaced."""
    is_open = span.end == played.until
    return is_open and any(lost.begin <= span.begin < lost.end for lost in played.forgotten)


def _false_greens(
    world: World,
    rule: str,
    subject: Subject,
    expected: Sequence[Stretch],
    received: Received,
    played: Played,
    for_seconds: float,
) -> Iterator[Finding]:
    wait = for_seconds + _LASTING_SLACK_SECONDS if for_seconds else 0.0
    for failing in failing_spans(expected):
        active = [
            *played.stops,
            *(
                span
                for carrier in {subject, *failing.carriers}
                for span in active_spans(received.alerts[rule, carrier], played.until)
            ),
        ]
        for gap in gaps_of(Span(failing.begin + wait, failing.end), active):
            yield Finding(
                seed=world.seed,
                kind=Kind.FALSE_GREEN,
                text=f"{_named(subject)} fails since {failing.first.latest:.1f} "
                f"({_run(failing.first)}), and {rule} is not active {_shown(gap)}",
            )


class FailingSpan(Struct, frozen=True, kw_only=True):
    """A span in which something must be reported: its first failure, and whose alert may do it."""

    begin: float
    end: float
    first: TrueEnd
    carriers: frozenset[Subject]


def failing_spans(expected: Sequence[Stretch]) -> list[FailingSpan]:
    """Return the spans in which something must be reported."""
    spans: list[FailingSpan] = []
    for stretch in expected:
        if not stretch.must:
            continue
        # An open alert about a part of any of the failures suppresses that of the whole.
        carriers = frozenset(carrier for failure in stretch.may for carrier in failure.carriers)
        last = spans[-1] if spans else None
        if last and last.end == stretch.begin and last.first in stretch.must:
            spans[-1] = replace(last, end=stretch.end, carriers=last.carriers | carriers)
        else:
            spans.append(
                FailingSpan(
                    begin=stretch.begin,
                    end=stretch.end,
                    first=stretch.must[0],
                    carriers=carriers,
                )
            )
    return spans


def _wrong_starts(
    world: World,
    subject: Subject,
    ends: Sequence[TrueEnd],
    received: Received,
    played: Played,
) -> Iterator[Finding]:
    slack = timedelta(seconds=_STAMP_SECONDS)
    for word in received.alerts[RULE, subject]:
        if word.word != "fired":
            continue
        known = [
            failure
            for at in (word.at, word.at - _LATENCY_SECONDS)
            for failure in possible_failures(ends, at)
            if failure.subject == subject
        ]
        known += [
            end for end in ends if end.subject == subject and word.evidence & {end.run, *end.parts}
        ]  # what was over when it was seen
        still = certain_failures(ends, word.at)
        oldest = [end for end in certain_failures(ends, word.at - _LATENCY_SECONDS) if end in still]
        limit = min(
            (failure.latest for failure in oldest if failure.subject == subject), default=None
        )
        fits = any(
            played.zero + timedelta(seconds=failure.earliest) - slack
            <= word.starts_at
            <= played.zero + timedelta(seconds=min(failure.latest_start, _LONGEST_SECONDS)) + slack
            for failure in known
            if limit is None or failure.earliest <= limit
        )
        if not known:
            yield Finding(
                seed=world.seed,
                kind=Kind.WRONG_SUBJECT,
                text=f"{RULE} about {_named(subject)} fired at {word.at:.1f} by "
                f"{_runs(word.evidence)}; nothing of it fails by itself",
            )
        elif not fits:
            start = (word.starts_at - played.zero).total_seconds()
            yield Finding(
                seed=world.seed,
                kind=Kind.WRONG_START,
                text=f"{RULE} about {_named(subject)} fired at {word.at:.1f} and starts at "
                f"{start:.1f}; open were {sorted({_run(failure) for failure in known})}",
            )


def _wrong_marks(
    world: World, subject: Subject, ends: Sequence[TrueEnd], received: Received
) -> Iterator[Finding]:
    """Yield alerts that were over when they were seen and do not say so, and the other way."""
    words = received.alerts[RULE, subject]
    for word, following in pairwise(words):
        is_over = following.word == "resolved" and following.at - word.at <= _INSTANT_SECONDS
        if word.word != "fired" or (is_over and word.is_over_when_seen):
            continue
        own = [end for end in ends if end.subject == subject]
        could_be_open = any(
            failure in possible_failures(ends, at)
            for at in (word.at, word.at - _LATENCY_SECONDS)
            for failure in own
        )
        if word.is_over_when_seen or (is_over and not could_be_open):
            marked = "marked" if word.is_over_when_seen else "not marked"
            yield Finding(
                seed=world.seed,
                kind=Kind.WRONG_MARK,
                text=f"{RULE} about {_named(subject)} fired at {word.at:.1f}, is {marked} as over "
                f"when it was seen, and resolved at {following.at:.1f}",
            )


def gaps_of(span: Span, active: Sequence[Span]) -> list[Span]:
    """Return the parts of a span that no active span covers."""
    gaps: list[Span] = []
    at = span.begin
    for cover in sorted(active, key=lambda cover: cover.begin):
        if cover.begin - at > _INSTANT_SECONDS and at < span.end:
            gaps.append(Span(at, min(cover.begin, span.end)))
        at = max(at, cover.end)
    if span.end - at > _INSTANT_SECONDS:
        gaps.append(Span(at, span.end))
    return [gap for gap in gaps if gap.end - gap.begin > _INSTANT_SECONDS]


def _overlap(span: Span, stretch: Stretch) -> float:
    return min(span.end, stretch.end) - max(span.begin, stretch.begin)


def _named(subject: Subject) -> str:
    return f"{subject.kind} of {'plan' if subject.kind is RunKind.PLAN_RUN else 'flow'} " + str(
        subject.pipeline
    )


def _run(end: TrueEnd) -> str:
    kind, run = end.run
    span = f"{end.earliest:.1f}"
    if end.latest != end.earliest:
        span += f" to {end.latest:.1f}"
    return f"{kind} {run} {end.end} at {span}, shown from {end.known_at:.1f}"


def _runs(runs: Iterable[Run]) -> str:
    return ", ".join(f"{kind} {run}" for kind, run in sorted(runs))


def _shown(span: Span) -> str:
    return f"from {span.begin:.1f} to {span.end:.1f}"
