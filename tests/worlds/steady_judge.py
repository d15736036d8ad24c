"""Judges that nothing is said to have changed that has not: states, capabilities, alerts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.worlds.alert_judge import RULE, active_spans, gaps_of
from tests.worlds.allowances import RECOVERED_SECONDS, UNREACHABLE_FOR_SECONDS, due
from tests.worlds.blindness import UNREACHABLE, blindnesses
from tests.worlds.configuration import LASTING
from tests.worlds.findings import Finding, Kind
from tests.worlds.impairments import Span
from tests.worlds.play import Played
from tests.worlds.received import Received
from tests.worlds.script import World
from tests.worlds.truth import Run

_UNKNOWN = "unknown"
_CAPABILITIES = ("capability:", "edition")


def steady_findings(world: World, received: Received, played: Played) -> Iterator[Finding]:
    """Yield what went to and fro although nothing did."""
    yield from _fired_again(world, received)
    yield from _unreachable_again(world, received, played)
    yield from _unknown_states(world, received, played)
    yield from _changes(world, received)


def _fired_again(world: World, received: Received) -> Iterator[Finding]:
    """Yield alerts by a failure that an alert, since resolved, was about already."""
    for (rule, subject), words in received.alerts.items():
        over: set[Run] = set()
        for word in words:
            again = over & word.evidence
            if rule not in (RULE, LASTING) and word.evidence - over:
                # What is seen late may break a row of failures; another one, with a new failure,
                # may end with some of the same.
                again = set()
            if word.word == "resolved":
                over |= word.evidence
            elif word.word == "fired" and again and not word.is_over_when_seen:
                text = f"{rule} about {subject} fired again at {word.at:.1f} by {sorted(again)}"
                yield Finding(seed=world.seed, kind=Kind.FIRED_AGAIN, text=text)


def _unreachable_again(world: World, received: Received, played: Played) -> Iterator[Finding]:
    """Yield alerts that say twice that the same thing cannot be followed."""
    words = [
        word
        for (rule, _), own in received.other_alerts.items()
        for word in own
        if rule == UNREACHABLE
    ]
    active = active_spans(sorted(words, key=lambda word: word.at), played.until)
    for part in blindnesses(world):
        if part.reported_within is None or UNREACHABLE not in part.rules:
            continue  # what shows it is chance, and may be over; or another rule reports it
        inside = [
            span
            for span in active
            if part.span.begin < span.begin
            # One that ends before the rule's own wait was over is about something else.
            and part.span.begin + UNREACHABLE_FOR_SECONDS < span.end
            and span.end < min(part.span.end, played.until)
        ]
        if inside and not any(_touches(stop, part.span) for stop in played.stops):
            text = f"{UNREACHABLE} ended at {inside[0].end:.1f}; {part.text} until {part.span.end}"
            yield Finding(seed=world.seed, kind=Kind.FIRED_AGAIN, text=text)


def _touches(span: Span, other: Span) -> bool:
    return span.begin < other.end and other.begin < span.end


def _unknown_states(world: World, received: Received, played: Played) -> Iterator[Finding]:
    causes = list(_causes(world, played.stops))
    for subject, states in received.former_states.items():
        for (begin, state), (end, _) in pairwise([*states, (played.until, "")]):
            if state == _UNKNOWN:
                for gap in gaps_of(Span(begin, end), causes):
                    text = (
                        f"{subject.kind} {subject.pipeline} is unknown from {gap.begin:.1f} to "
                        f"{gap.end:.1f} without a cause"
                    )
                    yield Finding(seed=world.seed, kind=Kind.GAUGES, text=text)


def _causes(world: World, stops: Sequence[Span]) -> Iterator[Span]:
    down = [*world.outages, *stops]
    for span in down:
        yield Span(span.begin, due(span.end, RECOVERED_SECONDS, down))
    for part in blindnesses(world):
        yield Span(part.span.begin, due(part.recovered_at, RECOVERED_SECONDS, down))


def _changes(world: World, received: Received) -> Iterator[Finding]:
    for at, change in received.changes:
        what = json.loads(change)["what"]
        if what.startswith(_CAPABILITIES) and not world.withdrawals:
            text = f"at {at:.1f} {what} is said to have changed"
            yield Finding(seed=world.seed, kind=Kind.EVENTS, text=text)
