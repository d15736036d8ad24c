"""Judges what is said while a workspace cannot be followed: never green, and red only then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest

from tests.worlds.alert_judge import active_spans, gaps_of
from tests.worlds.allowances import RECOVERED_SECONDS, due
from tests.worlds.blindness import (
    RUN_LISTS,
    UNREACHABLE,
    UNSHARED,
    Blindness,
    blindnesses,
    due_report,
    unknown_from,
)
from tests.worlds.findings import Finding, Kind
from tests.worlds.impairments import Span
from tests.worlds.play import Played
from tests.worlds.received import OtherAlertWord, Received
from tests.worlds.script import World

_KNOWN = "known"
_REACHABLE = "reachable"
# Of the rules about durations, by default.
_LIMIT_SECONDS = {"run_stuck": 900.0, "queue_slow": 600.0}
_LONGEST_RUN_SECONDS = 240.0
_TOLERATED_SECONDS = 60.0  # so far ahead a time is believed
_JUDGED_ELSEWHERE = frozenset({"schedule_missed", "run_lost"})
_LAST_SECONDS = 5.0  # of a span, in which it may be over already


def blind_findings(world: World, received: Received, played: Played) -> Iterator[Finding]:
    """Yield what is green although it cannot be followed, and alerts about it without a cause."""
    parts = blindnesses(world)
    down = [*world.outages, *played.stops]
    words = {
        rule: [
            word for (own, _), said in received.other_alerts.items() for word in said if own == rule
        ]
        for rule in (UNREACHABLE, UNSHARED)
    }
    active = {
        rule: active_spans(_known_words(own, played.forgotten), played.until)
        for rule, own in words.items()
    }
    for part in parts:
        # What cannot even be asked for cannot be found to be missing.
        refused = [
            other.span
            for other in parts
            if other is not part and other.kinds and other.flows is None
        ]
        unlisted = [
            Span(other.span.begin, other.recovered_at)
            for other in parts
            if other.hides_pipelines and part.flows is not None
        ]
        unseen = [*down, *refused, *unlisted]
        said = [span for rule in part.rules for span in active[rule]]
        yield from _silences(
            world, part, said, played, [*down, *unlisted, *_withdrawn(world, part)]
        )
        yield from _known_states(world, part, received, played, unseen)
        yield from _glimpses(world, part, played, unseen)
    yield from _without_cause(world, active[UNREACHABLE], parts, down)
    yield from _without_reason(world, words[UNREACHABLE])
    yield from _other_alerts(world, received)


def _known_words(
    words: Sequence[OtherAlertWord], forgotten: Sequence[Span]
) -> Sequence[OtherAlertWord]:
    """Return them in their order, less ends that only the replaced store knew.

    In the older store the alert is open, and goes on without another start: see the README.
    """
    words = sorted(words, key=lambda word: word.at)
    return [
        word
        for word, after in zip_longest(words, words[1:])
        if word.word != "resolved"
        or (after is not None and after.word == "fired")
        or not any(span.begin <= word.at < span.end for span in forgotten)
    ]


def _withdrawn(world: World, part: Blindness) -> list[Span]:
    """Return when lists of runs are refused, which has its own alert and shows nothing else.

    A flow is missed in the list of flows all the same.
    """
    if part.flows is not None:
        return []
    return [
        withdrawal.span
        for withdrawal in world.withdrawals
        if withdrawal.lists & RUN_LISTS.keys() and withdrawal.span != part.span
    ]


def _silences(
    world: World, part: Blindness, active: Sequence[Span], played: Played, down: Sequence[Span]
) -> Iterator[Finding]:
    owed = Span(due_report(part, down), min(part.span.end, played.until) - _LAST_SECONDS)
    rules = " or ".join(sorted(part.rules))
    for gap in gaps_of(owed, [*active, *played.stops]):
        yield Finding(
            seed=world.seed,
            kind=Kind.BLIND,
            text=f"{part.text} since {part.span.begin:.1f}, and {rules} is not active "
            f"from {gap.begin:.1f} to {gap.end:.1f}",
        )


def _known_states(
    world: World, part: Blindness, received: Received, played: Played, down: Sequence[Span]
) -> Iterator[Finding]:
    """Yield retained states that are repeated although nothing has confirmed them for too long."""
    begin = unknown_from(part, down)
    end = min(part.span.end, played.until) - _LAST_SECONDS
    if not part.kinds or begin >= end:
        return
    states = {
        f"{subject.kind} {subject.pipeline}": (former, _KNOWN)
        for subject, former in received.former_states.items()
        if subject.kind in part.kinds and (part.flows is None or subject.pipeline in part.flows)
    }
    if part.flows is None:
        states["the workspace"] = (received.workspace_states, _REACHABLE)
    for name, (former, green) in states.items():
        if any(
            state == green and at < end and begin < following
            for (at, state), (following, _) in pairwise([*former, (played.until, "")])
        ):
            text = f"{part.text} since {part.span.begin:.1f}; {name} is {green} after {begin:.1f}"
            yield Finding(seed=world.seed, kind=Kind.BLIND, text=text)


def _glimpses(
    world: World, part: Blindness, played: Played, down: Sequence[Span]
) -> Iterator[Finding]:
    begin, end = unknown_from(part, down), min(part.span.end, played.until)
    for glimpse in played.glimpses:
        is_inside = begin <= glimpse.at < end and _has_read(glimpse.at, played.stops)
        # Other flows are shown as ever: what is counted by kinds may be theirs.
        if not part.kinds or part.flows is not None or not is_inside:
            continue
        shown = sorted(glimpse.active_kinds.get(world.name, set()) & part.kinds)
        green = [f"metrics count active {kind}s" for kind in shown]
        green += [
            f"{name} about a {kind} fires as if it could be judged"
            for kind, name in sorted(glimpse.judged_alerts.get(world.name, ()))
            if kind in part.kinds
        ]
        if glimpse.reachability.get(world.name) == _REACHABLE:
            green.append("page data shows it as reachable")
        if green:
            text = f"{part.text} since {part.span.begin:.1f}; at {glimpse.at:.1f} "
            yield Finding(seed=world.seed, kind=Kind.BLIND, text=text + ", ".join(green))


def _has_read(at: float, stops: Sequence[Span]) -> bool:
    """True where the daemon has run for long enough to have read the workspace."""
    return not any(stop.begin <= at < stop.end + RECOVERED_SECONDS for stop in stops)


def _without_cause(
    world: World, active: Sequence[Span], parts: Sequence[Blindness], down: Sequence[Span]
) -> Iterator[Finding]:
    causes = [
        Span(span.begin, due(span.end, RECOVERED_SECONDS, down))
        for span in (
            *down,
            *(
                Span(part.span.begin, part.recovered_at)
                for part in parts
                if _is_outage(world, part)
            ),
        )
    ]
    for span in active:
        for gap in gaps_of(span, causes):
            text = f"{UNREACHABLE} is active from {gap.begin:.1f} to {gap.end:.1f} without a cause"
            yield Finding(seed=world.seed, kind=Kind.FALSE_RED, text=text)


def _is_outage(world: World, part: Blindness) -> bool:
    """False where a flow is hidden beside others: that is an alert of its own."""
    return part.flows is None or part.flows >= {flow.id for flow in world.flows}


def _without_reason(world: World, words: Sequence[OtherAlertWord]) -> Iterator[Finding]:
    for word in words:
        if word.word == "fired" and not word.reason:
            text = f"{UNREACHABLE} fired at {word.at:.1f} without a reason"
            yield Finding(seed=world.seed, kind=Kind.BLIND, text=text)


def _other_alerts(world: World, received: Received) -> Iterator[Finding]:
    """Yield alerts of rules that nothing in a world can be a reason for."""
    for (rule, _), words in received.other_alerts.items():
        caused = {*_by_duration(world), *_by_stamps(world), *_by_rights(world)}
        caused |= {deadline.rule for deadline in world.deadlines}
        caused |= {deadline.risk_rule for deadline in world.deadlines}
        if rule not in (UNREACHABLE, *_JUDGED_ELSEWHERE, *caused):
            text = f"{rule} fired at {words[0].at:.1f} about {words[0].labels}: {words[0].reason}"
            yield Finding(seed=world.seed, kind=Kind.FALSE_RED, text=text)


def _by_duration(world: World) -> frozenset[str]:
    """Return the rules about durations that a clock set forward makes longer by their limit."""
    clock_set = world.workspace_clock_set
    seconds = 0.0 if clock_set is None else clock_set.seconds
    limits = _LIMIT_SECONDS.items()
    return frozenset(rule for rule, limit in limits if seconds + _LONGEST_RUN_SECONDS > limit)


def _by_rights(world: World) -> frozenset[str]:
    """Return the rule about flows that are no longer shared, where one is not."""
    is_caused = any(hiding.flows is not None for hiding in world.hidings)
    return frozenset({UNSHARED}) if is_caused else frozenset()


def _by_stamps(world: World) -> frozenset[str]:
    """Return the rule about impossible times, where such a time was written by a run of then.

    It lies in the future by the clock that was set back while the run was active.
    """
    clock_set = world.workspace_clock_set
    if clock_set is None or clock_set.seconds > -_TOLERATED_SECONDS:
        return frozenset()
    spans = [(run.created, run.end_shown_from) for run in world.job_groups]
    spans += [(run.created, run.end_shown_from) for run in world.plan_runs]
    is_active = any(created < clock_set.at < shown_from for created, shown_from in spans)
    return frozenset({"success_doubted"}) if is_active else frozenset()
