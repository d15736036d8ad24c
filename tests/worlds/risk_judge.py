"""Judges warnings of deadlines: one for each that a run no longer fits before, and no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from tests.worlds.alert_judge import active_spans
from tests.worlds.allowances import POLL, REPORT_SECONDS, due
from tests.worlds.deadline_truth import LATENCY_SECONDS, Attempt, AwaitedDeadline
from tests.worlds.impairments import Span
from tests.worlds.play import Played
from tests.worlds.received import OtherAlertWord, Received

_STEP_SECONDS = 2.0  # of the workspace's clock as its answers show it, and of ours
_SEEN_SECONDS = 2 * POLL.idle_seconds + LATENCY_SECONDS  # until a run that works is known


class WatchedDeadline:
    """A deadline, and from when on what a run takes no longer fits before it."""

    def __init__(self, awaited: AwaitedDeadline, usual_seconds: float) -> None:
        self.awaited = awaited
        self.at = awaited.at - usual_seconds
        self.since = awaited.day_at - timedelta(seconds=usual_seconds)

    def may_fit(self, attempt: Attempt) -> bool:
        """True of a run that may have begun in time: while it works, nothing is at risk."""
        return attempt.began.begin <= self.at + _STEP_SECONDS

    def must_fit(self, attempt: Attempt) -> bool:
        """True of a run that began in time, counts, and is shown at once."""
        awaited, began = self.awaited, attempt.began
        counts = awaited.deadline.counts == "ended" or began.begin >= awaited.opens + _STEP_SECONDS
        is_prompt = attempt.is_certain and attempt.shown_from - began.begin <= 1.0
        return counts and is_prompt and began.end <= self.at - _STEP_SECONDS

    def over_by(self) -> float:
        """By when it must be over: it is met, or missed."""
        spans = [*self.awaited.blind, *self.awaited.held_back]
        decided = due(self.awaited.at, REPORT_SECONDS, spans) + LATENCY_SECONDS
        return min(self.awaited.met_by, decided)

    def may_be_over(self, at: float) -> bool:
        """True from when on the deadline may be decided, or a run be seen that began in time."""
        awaited = self.awaited
        return at >= min(awaited.at - _STEP_SECONDS, awaited.removed_from) or any(
            (awaited.may_meet(attempt) and attempt.is_success and attempt.known_at <= at)
            or (self.may_fit(attempt) and attempt.shown_from <= at)
            for attempt in awaited.attempts
        )

    def warned_by(self) -> float:
        """By when it must be at risk; never where a run may have prevented it."""
        awaited = self.awaited
        spans = [*awaited.blind, *awaited.held_back]
        by = due(self.at, REPORT_SECONDS, spans) + LATENCY_SECONDS
        is_prevented = any(
            (self.may_fit(attempt) and attempt.due_at >= self.at)
            or (attempt.is_success and awaited.may_meet(attempt) and attempt.known_at <= by)
            for attempt in awaited.attempts
        )
        is_over_before = by >= min(awaited.at - _STEP_SECONDS, awaited.removed_from)
        return float("inf") if is_prevented or is_over_before else by


def risk_problems(
    awaited: Sequence[AwaitedDeadline], unread: Sequence[Span], received: Received, played: Played
) -> Iterator[str]:
    """Yield what is wrong with the warnings of one deadline of a world, day by day."""
    deadline = awaited[0].deadline
    if deadline.usual_seconds is None:
        return
    words = sorted(
        (
            word
            for (rule, _), own in received.other_alerts.items()
            if rule == deadline.risk_rule
            for word in own
        ),
        key=lambda word: word.at,
    )
    for each in awaited:
        watched = WatchedDeadline(each, deadline.usual_seconds)
        own = [word for word in words if watched.since <= word.starts_at <= each.day_at]
        words = [word for word in words if word not in own]
        for text in _problems(watched, own, unread, played):
            yield f"{deadline.risk_rule} at {each.at:.0f} {text}"
    for word in words:
        yield f"{deadline.risk_rule} is reported at {word.at:.1f} as of {word.starts_at}"


def _problems(
    watched: WatchedDeadline,
    words: Sequence[OtherAlertWord],
    unread: Sequence[Span],
    played: Played,
) -> Iterator[str]:
    awaited = watched.awaited
    fired = [word for word in words if word.word == "fired"]
    active = active_spans(words, played.until)
    if not awaited.is_awaited:
        if fired and fired[0].at < awaited.removed_from:
            yield f"is reported at {fired[0].at:.1f}; its window was open at the beginning"
        return
    if len(fired) > len(active):
        yield f"is reported at {[word.at for word in fired]}"
    for word in fired:
        yield from _false_warnings(watched, word, unread, played)
    by = watched.warned_by()
    is_lost = any(span.begin - LATENCY_SECONDS <= by < span.end for span in played.forgotten)
    if by <= played.until and not is_lost and not any(word.at <= by for word in fired):
        yield f"is not at risk by {by:.1f}, and no run works"
    by = watched.over_by()
    for span in active:
        if span.end > by and by < min(played.until, awaited.removed_from):
            yield f"is at risk until {span.end:.1f}; it was to be decided by {by:.1f}"
        if span.end < played.until and not watched.may_be_over(span.end):
            yield f"is no longer at risk at {span.end:.1f}, and nothing works"


def _false_warnings(
    watched: WatchedDeadline, word: OtherAlertWord, unread: Sequence[Span], played: Played
) -> Iterator[str]:
    awaited, at = watched.awaited, word.at
    if at < watched.at - _STEP_SECONDS:
        yield f"is at risk at {at:.1f}, before that"
    if at > watched.over_by():
        yield f"is at risk at {at:.1f}, and it is decided"
    for span in unread:
        if span.begin <= watched.at - _STEP_SECONDS and at < span.end:
            yield f"is at risk at {at:.1f}, and nothing is read since {span.begin}"
    for attempt in awaited.attempts:
        is_seen = due(attempt.shown_from, _SEEN_SECONDS, awaited.blind) <= at
        if watched.must_fit(attempt) and is_seen and at < attempt.known_at:
            yield f"is at risk at {at:.1f}, and {attempt.run} began in time"
    starts = (word.starts_at - played.zero).total_seconds()
    begun = [attempt.began for attempt in awaited.attempts]
    is_known = word.starts_at == watched.since or any(
        span.begin - _STEP_SECONDS <= starts <= span.end + _STEP_SECONDS for span in begun
    )
    if not is_known:
        yield f"is at risk as of {starts:.1f}, and no run began then"
