"""Compares the expected starts of a schedule with those that came. Pure.

The starts are assigned as the rule schedule_missed assigns them. A schedule is known as it is now:
what it expected before it was last written is unknown, and so is what could not be observed.
A workspace knows no holidays: on days off of the rules a start may come, and none is missed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from typing import TypeVar

from msgspec import Struct

from monitor.alerting.rules.expected_starts import ExpectedStart, ObservedStart, assigned, start_of
from monitor.model.days_off import NO_DAYS_OFF, DaysOff
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import RunState, Trigger
from monitor.model.triggers import ScheduleTrigger
from monitor.schedules import BadTriggerError, second_pass, times_between

MOST_TIMES = 13_000  # of one schedule: every minute of a week and its margins


class StartState(StrEnum):
    """What became of an expected start."""

    MET = "met"
    MISSED = "missed"
    DUE = "due"  # its time has come, and its grace is not over as of what is known
    UNKNOWN = "unknown"  # ``reason`` of the row says why
    COMING = "coming"
    NOT_EXPECTED = "not_expected"  # the schedule names it, and the rules expect none that day
    UNPLANNED = "unplanned"  # a schedule started a run at a time that is not known as expected


class ScheduledStart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One expected start, or one that came unexpectedly. Instants are the workspace's."""

    at: datetime
    state: StartState
    reason: str | None = None  # one sentence, where the state is unknown or not expected
    run_kind: str | None = None
    run_id: str | None = None
    run_status: str | None = None
    started_at: datetime | None = None  # as the workspace stamped the run


class Known(Struct, frozen=True, kw_only=True):
    """Between which times starts are known. All instants are the workspace's.

    What lies before ``since`` is unknown for ``before_reason``. Starts are known until
    ``until``; what lies after it is unknown where ``unwatched`` says why, else only due.
    """

    now: datetime
    since: datetime
    before_reason: str
    until: datetime | None
    unwatched: str | None
    grace: timedelta


class Span(Struct, frozen=True, kw_only=True):
    """What is compared: with margins, because a start may come late."""

    begin: datetime
    end: datetime


def unexpected_times(
    schedule: ScheduleKnown, span: Span, rules: Sequence[DaysOff]
) -> Mapping[datetime, str]:
    """Return when the schedule fires and no rule expects a start, and why in one sentence.

    ``rules`` has the days off of each rule that awaits its starts; without any, nothing is off.
    """
    if not schedule.is_enabled or not rules or NO_DAYS_OFF in rules:
        return {}
    expected = {
        start.at
        for days_off in rules
        for start in _times(schedule.triggers, span.begin, span.end, days_off)
    }
    days = " and ".join(dict.fromkeys(days_off.in_words for days_off in rules))
    why = f"schedule_missed expects no start on {days}"
    every = _times(schedule.triggers, span.begin, span.end)
    return {start.at: why for start in every if start.at not in expected}


def expected_times(
    schedule: ScheduleKnown, span: Span, *, limit: int
) -> tuple[Sequence[ExpectedStart], str | None]:
    """Return when the schedule fires, as it is now, or why that is not compared."""
    if not schedule.is_enabled:
        return (), None
    begin = max(span.begin, schedule.created_at or span.begin)
    try:
        times = _times(schedule.triggers, begin, span.end)
    except BadTriggerError as exc:
        return (), f"its times cannot be computed: {exc}"
    if len(times) > MOST_TIMES:
        return (), "it fires too often to compare start by start"
    if len(times) > limit:
        return (), "too many starts for one page: choose this pipeline in the filter"
    return times, None


@functools.lru_cache(maxsize=32)
def _times(
    triggers: tuple[ScheduleTrigger, ...],
    begin: datetime,
    end: datetime,
    days_off: DaysOff = NO_DAYS_OFF,
) -> tuple[ExpectedStart, ...]:
    # A page that is kept open is made again every few seconds.
    return tuple(
        ExpectedStart(at=at, schedules="", again_at=second_pass(triggers, at))
        for at in times_between(triggers, begin, end, limit=MOST_TIMES + 1, days_off=days_off)
    )


K = TypeVar("K")


def compared(
    times: Mapping[K, Sequence[ExpectedStart]],
    runs: Sequence[RunState],
    known: Mapping[K, Known],
    unexpected: Mapping[K, Mapping[datetime, str]],
) -> dict[K, list[ScheduledStart]]:
    """Return the starts of each schedule of one pipeline, ascending, by the key of ``times``.

    What no schedule expected is under the first. ``unexpected`` as `unexpected_times` returns it.
    """
    union: dict[datetime, ExpectedStart] = {}
    for expected in chain.from_iterable(times.values()):
        other = union.setdefault(expected.at, expected)
        if expected.again_at is None or other.again_at is None:  # one of them is strict
            union[expected.at] = min(expected, other, key=lambda start: start.last_at)
    states = {f"{run.key.kind}/{run.key.id}": run for run in runs}
    observed: dict[str, ObservedStart] = {}  # a flow run and its job groups are one start
    for start in sorted(filter(None, map(start_of, runs)), key=lambda start: start.at):
        if start.is_scheduled:
            observed.setdefault(start.key, start)
    got = assigned([union[at] for at in sorted(union)], observed.values())
    starts = {
        schedule: [
            _start(
                union[start.at],
                got.get(start.at, ()),
                states,
                known[schedule],
                why_unexpected=unexpected[schedule].get(start.at),
            )
            for start in expected
        ]
        for schedule, expected in times.items()
    }
    if first := next(iter(starts), None):
        used = {start.key for own in got.values() for start in own}
        starts[first] += _unplanned(observed, used, states)
        starts[first].sort(key=lambda start: start.at)
    return starts


def _start(
    expected: ExpectedStart,
    observed: Sequence[ObservedStart],
    states: Mapping[str, RunState],
    known: Known,
    *,
    why_unexpected: str | None,
) -> ScheduledStart:
    at = expected.at
    if observed:
        return _met(at, observed[0], states)
    if why_unexpected is not None:
        return ScheduledStart(at=at, state=StartState.NOT_EXPECTED, reason=why_unexpected)
    if at > known.now:
        return ScheduledStart(at=at, state=StartState.COMING)
    if at < known.since:
        return ScheduledStart(at=at, state=StartState.UNKNOWN, reason=known.before_reason)
    if known.until is not None and expected.last_at + known.grace <= known.until:
        return ScheduledStart(at=at, state=StartState.MISSED)
    state = StartState.DUE if known.unwatched is None else StartState.UNKNOWN
    return ScheduledStart(at=at, state=state, reason=known.unwatched)


def _met(at: datetime, observed: ObservedStart, states: Mapping[str, RunState]) -> ScheduledStart:
    kind, _, run_id = observed.key.partition("/")
    run = states.get(observed.key)
    return ScheduledStart(
        at=at,
        state=StartState.MET,
        run_kind=kind,
        run_id=run_id,
        run_status=None if run is None else run.status,
        started_at=observed.at,
    )


def _unplanned(
    observed: Mapping[str, ObservedStart], used: set[str], states: Mapping[str, RunState]
) -> list[ScheduledStart]:
    """Return starts by a schedule that no expected time explains."""
    return [
        ScheduledStart(
            at=start.at,
            state=StartState.UNPLANNED,
            run_kind=run.key.kind,
            run_id=run.key.id,
            run_status=run.status,
            started_at=start.at,
        )
        for key, start in observed.items()
        if key not in used
        and (run := states.get(key)) is not None
        and run.trigger is Trigger.SCHEDULE
    ]
