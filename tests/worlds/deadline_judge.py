"""Judges deadlines: each is reported once, as met or as missed, and by what is known then."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

from msgspec import Struct

from tests.worlds.alert_judge import active_spans, gaps_of
from tests.worlds.allowances import POLL
from tests.worlds.deadline_truth import LATENCY_SECONDS, AwaitedDeadline, awaited_deadlines
from tests.worlds.findings import Finding, Kind
from tests.worlds.impairments import ListName, Span
from tests.worlds.play import Played
from tests.worlds.received import OtherAlertWord, Received
from tests.worlds.risk_judge import risk_problems
from tests.worlds.script import NEVER, World

_STEP_SECONDS = 2.0  # of the workspace's clock as its answers show it, and of ours


class _Reported(Struct, frozen=True, kw_only=True):
    """What was received about one deadline: when."""

    met: list[float]
    missed: list[float]
    active: list[Span]


def deadline_findings(world: World, received: Received, played: Played) -> Iterator[Finding]:
    """Yield deadlines that were reported wrongly, twice, too early, too late or not at all."""
    if not world.deadlines:
        return
    blind = played.blind[world.name]
    awaited = list(awaited_deadlines(world, played.planned or played.zero, played.zero, blind))
    texts = [text for each in awaited for text in _problems(world, each, received, played)]
    texts += _without_deadline(world, awaited, received)
    for _, days in groupby(awaited, key=lambda each: each.deadline):
        own = list(days)
        texts += risk_problems(own, list(_unread(world, own[0])), received, played)
    for text in texts:
        yield Finding(seed=world.seed, kind=Kind.DEADLINES, text=text)


def _problems(
    world: World, awaited: AwaitedDeadline, received: Received, played: Played
) -> Iterator[str]:
    reported = _reported(awaited, received, played.until)
    named = f"{awaited.deadline.rule} at {awaited.at:.0f}"
    for words, what in ((reported.met, "met"), (reported.missed, "missed")):
        if len(words) > 1:
            yield f"{named} is reported as {what} at {words}"
    if not awaited.is_awaited:
        at = min([*reported.met, *reported.missed], default=NEVER)
        if at < awaited.removed_from:
            yield f"{named} is reported at {at:.1f}; its window was open at the beginning"
        return
    for text in (
        *_false_reports(world, awaited, reported),
        *_contradictions(reported),
        *_absent_reports(awaited, reported, played),
    ):
        yield f"{named} {text}"


def _false_reports(world: World, awaited: AwaitedDeadline, reported: _Reported) -> Iterator[str]:
    for at in reported.met[:1]:
        known = [each for each in awaited.successes if awaited.may_meet(each)]
        if not any(each.known_at <= at for each in known):
            yield f"is reported as met at {at:.1f}, and no success is known"
    for at in reported.missed[:1]:
        if at < awaited.at - _STEP_SECONDS:
            yield f"is reported as missed at {at:.1f}, before its time"
        for span in _unread(world, awaited):
            if span.begin <= awaited.at - _STEP_SECONDS and at < span.end:
                yield f"is reported as missed at {at:.1f}, and nothing is read since {span.begin}"
        for success in awaited.successes:
            if awaited.must_meet(success) and _is_known(success.due_at, at):
                yield f"is reported as missed at {at:.1f}, and {success.run} has met it"
            elif (
                awaited.must_meet(success)
                and success.is_seen_soon
                and success.known_at < awaited.at - _STEP_SECONDS
                and not _touches(awaited.blind, success.known_at, at)
            ):
                yield f"is reported as missed at {at:.1f}; {success.run} was shown before"


def _is_known(due_at: float, at: float) -> bool:
    return due_at + LATENCY_SECONDS < at


def _touches(spans: Sequence[Span], begin: float, end: float) -> bool:
    return any(span.begin <= end and begin <= span.end + POLL.relist_seconds for span in spans)


def _unread(world: World, awaited: AwaitedDeadline) -> Iterator[Span]:
    """Yield when no poll of its runs can be complete."""
    yield from world.outages
    name = ListName.PLAN_RUNS if awaited.deadline.kind == "plan" else ListName.JOB_GROUPS
    for withdrawal in world.withdrawals:
        if name in withdrawal.lists:
            yield withdrawal.span


def _contradictions(reported: _Reported) -> Iterator[str]:
    """Yield what was said after the other; a success that is seen late may deny that it missed."""
    if not (reported.met and reported.missed):
        return
    met, missed = reported.met[0], reported.missed[0]
    if met < missed:
        yield f"is reported as missed at {missed:.1f} and was met at {met:.1f}"
    elif gaps := gaps_of(Span(met, met + LATENCY_SECONDS), _between(reported.active)):
        yield f"was met at {met:.1f} and is still missed at {gaps[0].begin:.1f}"


def _between(active: Sequence[Span]) -> list[Span]:
    """Return the times between spans, without end."""
    begins = [0.0, *(span.end for span in active)]
    ends = [*(span.begin for span in active), NEVER]
    return [Span(begin, end) for begin, end in zip(begins, ends, strict=True)]


def _absent_reports(awaited: AwaitedDeadline, reported: _Reported, played: Played) -> Iterator[str]:
    reported_ats = sorted([*reported.met, *reported.missed])
    if any(
        span.begin - LATENCY_SECONDS <= at < span.end
        for span in played.forgotten
        for at in reported_ats
    ):
        return  # an older store knows nothing of it
    by = awaited.decided_by
    if (
        by <= played.until
        and by < awaited.removed_from
        and not any(at <= by for at in reported_ats)
    ):
        yield f"is not reported by {by:.1f}"
    by = awaited.met_by
    if (
        by <= played.until
        and by < awaited.removed_from
        and not any(at <= by for at in reported.met)
    ):
        yield f"is not reported as met by {by:.1f}"
    for at in reported.missed[:1]:
        covered = [*reported.active, *played.stops]
        for gap in gaps_of(Span(at, min(awaited.over_from, played.until)), covered):
            yield f"is no longer missed at {gap.begin:.1f}, and nothing has succeeded"
        by = awaited.over_by(at)
        late = [span for span in reported.active if span.end > by]
        if late and by < played.until and by < awaited.removed_from:
            yield f"is missed until {late[0].end:.1f}; a success was due by {by:.1f}"


def _reported(awaited: AwaitedDeadline, received: Received, until: float) -> _Reported:
    words = sorted(
        (
            word
            for word in _alert_words(awaited.deadline.rule, received)
            if word.starts_at == awaited.day_at
        ),
        key=lambda word: word.at,
    )
    return _Reported(
        met=[
            at
            for at, _, met_at in _met(received, awaited.deadline.rule)
            if met_at == awaited.day_at
        ],
        missed=[word.at for word in words if word.word == "fired"],
        active=active_spans(words, until),
    )


def _alert_words(rule: str, received: Received) -> list[OtherAlertWord]:
    return [
        word for (name, _), words in received.other_alerts.items() if name == rule for word in words
    ]


def _met(received: Received, rule: str) -> Iterator[tuple[float, str, datetime]]:
    """Yield when a deadline of the rule was reported as met, whose, and which."""
    for at, change in received.changes:
        data = json.loads(change)
        if data["what"].startswith(f"deadline:{rule}:"):
            yield at, data["what"].rpartition(":")[2], datetime.fromisoformat(data["after"])


def _without_deadline(
    world: World, awaited: Sequence[AwaitedDeadline], received: Received
) -> Iterator[str]:
    """Yield reports about a time, or a pipeline, that has no deadline."""
    for deadline in world.deadlines:
        known = {each.day_at for each in awaited if each.deadline == deadline}
        named = f"{deadline.kind}/{deadline.pipeline}"
        for at, whose, met_at in _met(received, deadline.rule):
            if met_at not in known or whose != named:
                yield f"{deadline.rule} of {whose} at {met_at} is reported as met at {at:.1f}"
        for word in _alert_words(deadline.rule, received):
            pipeline = word.labels.get("pipeline_id")
            if word.starts_at not in known or pipeline != str(deadline.pipeline):
                yield (
                    f"{deadline.rule} of {pipeline} at {word.starts_at} is reported as missed "
                    f"at {word.at:.1f}"
                )
