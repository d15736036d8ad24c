"""Judges alerts about schedules: where a start was missed, until the next one, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.worlds.alert_judge import active_spans, gaps_of
from tests.worlds.allowances import GRACE_SECONDS, MISSED_SECONDS, due
from tests.worlds.blindness import hidden_spans, unscheduled_spans
from tests.worlds.findings import Finding, Kind
from tests.worlds.impairments import Span
from tests.worlds.play import Played
from tests.worlds.received import Received
from tests.worlds.script import NEVER, Schedule, World
from tests.worlds.truth import group_allowance

RULE = "schedule_missed"


def schedule_findings(world: World, received: Received, played: Played) -> Iterator[Finding]:
    """Yield missed starts without a report, and reports of starts that came."""
    for schedule in world.schedules:
        words = [
            word
            for (rule, _), own in received.other_alerts.items()
            for word in own
            if rule == RULE and word.labels.get("pipeline_id") == str(schedule.flow)
        ]
        active = active_spans(sorted(words, key=lambda word: word.at), played.until)
        blind = [
            *played.blind[world.name],
            *hidden_spans(world, schedule.flow),
            *unscheduled_spans(world),
        ]
        named = f"{RULE} of flow {schedule.flow}"
        for owed in _owed(world, schedule, blind, played.until):
            for gap in gaps_of(owed, [*active, *played.stops]):
                text = f"{named} is not active from {gap.begin:.1f} to {gap.end:.1f}"
                yield Finding(seed=world.seed, kind=Kind.MISSED, text=text)
        possible = list(_possible(world, schedule, blind))
        for span in active:
            for gap in gaps_of(span, possible):
                text = f"{named} is active from {gap.begin:.1f} to {gap.end:.1f}"
                yield Finding(seed=world.seed, kind=Kind.MISSED, text=f"{text}; nothing is missed")


def _owed(world: World, schedule: Schedule, blind: Sequence[Span], until: float) -> Iterator[Span]:
    """Yield when a missed start must be reported: until the next start may be known."""
    for at in schedule.due:
        if at in schedule.starts:
            continue
        later = (world.group(group) for due_at, group in schedule.starts.items() if due_at > at)
        known_at = min((group.shown_from for group in later), default=NEVER)
        yield Span(due(at, MISSED_SECONDS, blind), min(known_at, until))


def _possible(world: World, schedule: Schedule, blind: Sequence[Span]) -> Iterator[Span]:
    """Yield when a start may be reported as missed: none came, or none was shown in time."""
    known_by = {
        due_at: due(world.group(group).shown_from, group_allowance(world.group(group)), blind)
        if world.group(group).deleted_at == NEVER
        else NEVER
        for due_at, group in schedule.starts.items()
    }
    for at in schedule.due:
        over_by = min((by for due_at, by in known_by.items() if due_at >= at), default=NEVER)
        if at not in schedule.starts or over_by > at + GRACE_SECONDS:
            yield Span(at + GRACE_SECONDS, over_by)
