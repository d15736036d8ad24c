"""Expected starts of one flow or plan: still awaited, observed, or missed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.alerting.rules.contract import FlowOrPlanFacts, Ok
from monitor.alerting.rules.expected_starts import (
    EARLY,
    ExpectedStart,
    ObservedStart,
    ScheduleDefinition,
    ScheduleReadings,
    assigned,
    changed,
    last_pass,
    newest,
    next_time,
    start_of,
    times,
    without_history,
)
from monitor.alerting.rules.rule_settings import RuleSettings
from monitor.model.days_off import NO_DAYS_OFF, DaysOff
from monitor.model.events import RunEvent
from monitor.model.runs import RunState
from monitor.model.triggers import CronTrigger

_AT_ONCE = 500  # expected times in one evaluation; more of them wait for the next
_KEPT_STARTS = 1_000
_KEPT_MISSED = 50
_KEPT_USED = 50
_USED_FOR = timedelta(days=1)


class AwaitedStarts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is awaited of one flow or plan. All instants are the workspace's.

    Of the expected times up to ``judged_until`` only those in ``missed`` are open.
    """

    judged_until: datetime
    read_at: datetime  # of the schedules, when the memory last changed
    definitions: tuple[ScheduleDefinition, ...] = ()
    next_at: datetime | None = None  # the first expected time after ``judged_until``
    starts: tuple[ObservedStart, ...] = ()  # not assigned to an expected time yet
    used: tuple[ObservedStart, ...] = ()  # assigned; kept while events may still repeat them
    missed: tuple[ExpectedStart, ...] = ()  # in a row, oldest first; the newest of very many
    count: int = 0  # all that were ever missed
    expect: str | None = None  # the rule's own expression and its zone, where it has one
    days_off: DaysOff = NO_DAYS_OFF

    @property
    def is_over(self) -> bool:
        """True where nothing is left to wait for: every schedule is gone, and nothing is open."""
        is_listed = any(definition.is_listed for definition in newest(self.definitions).values())
        return not (is_listed or self.missed or self.expect)

    def is_due(self, due_at: datetime) -> bool:
        return self.next_at is not None and self.next_at <= due_at

    @property
    def open_since(self) -> datetime:
        """No start before this can be one that is awaited."""
        return (self.missed[0].at if self.missed else self.judged_until) - EARLY


class AwaitedOutcome(Struct, frozen=True, kw_only=True):
    """``ok``: what was missed is over. ``has_more``: call again."""

    memory: AwaitedStarts
    ok: Ok | None = None
    has_more: bool = False


def first_awaited(
    facts: FlowOrPlanFacts, rule: RuleSettings, *, as_of: datetime, read_at: datetime
) -> AwaitedStarts | None:
    """Return what is awaited from now on; None where nothing is expected at all."""
    if not facts.schedules and rule.expect is None:
        return None
    # What has already started was reported before there was a memory to keep it, and may have
    # been a little before its time.
    started = [health.last_started_at for health in facts.pipeline_health]
    started += [active.run.created_at for active in facts.active]
    begin = max(as_of, read_at, *(at + EARLY for at in started if at is not None))
    memory = AwaitedStarts(
        judged_until=begin, read_at=read_at, expect=expectation(rule), days_off=rule.days_off
    )
    if rule.expect is None:
        definitions = changed(
            (), facts.schedules, ScheduleReadings(known_at=read_at, read_at=read_at)
        )
    else:
        trigger = CronTrigger(expression=rule.expect, timezone=rule.expect_timezone)
        definitions = (
            ScheduleDefinition(schedule="", name=rule.expect, since=read_at, triggers=(trigger,)),
        )
    return _with_definitions(memory, definitions, read_at=read_at)


def expectation(rule: RuleSettings) -> str | None:
    """Return what the rule itself expects, in words that change with it."""
    return None if rule.expect is None else f"{rule.expect} {rule.expect_timezone}"


def with_schedules(
    memory: AwaitedStarts, facts: FlowOrPlanFacts, rule: RuleSettings, *, read_at: datetime
) -> AwaitedStarts:
    """Add what the schedules define now; the same object where nothing changed."""
    if rule.expect is not None or read_at <= memory.read_at:
        return memory
    readings = ScheduleReadings(
        known_at=memory.read_at, before=facts.schedules_read_before, read_at=read_at
    )
    definitions = changed(memory.definitions, facts.schedules, readings)
    if definitions is memory.definitions:
        return memory
    return _with_definitions(memory, definitions, read_at=read_at)


def _with_definitions(
    memory: AwaitedStarts, definitions: tuple[ScheduleDefinition, ...], *, read_at: datetime
) -> AwaitedStarts:
    until, days_off = memory.judged_until, memory.days_off
    earlier = times(definitions, until, read_at, limit=1, days_off=days_off)
    later = next_time(definitions, max(until, read_at), days_off=days_off)
    return msgspec.structs.replace(
        memory,
        definitions=definitions,
        read_at=read_at,
        next_at=earlier[0].at if earlier else later,
    )


def with_start(memory: AwaitedStarts, start: ObservedStart) -> AwaitedStarts:
    """Keep a start that may be an awaited one; the same object for any other, or a known one."""
    is_relevant = start.is_scheduled or memory.expect is not None or bool(memory.missed)
    if not is_relevant or start.at < memory.open_since:
        return memory
    if any(known.key == start.key for known in (*memory.starts, *memory.used)):
        return memory
    starts = tuple(sorted((*memory.starts, start), key=lambda known: known.at))
    if len(starts) <= _KEPT_STARTS:
        return msgspec.structs.replace(memory, starts=starts)
    # Whether what is older was met cannot be decided any more, so it does not count as missed.
    forgotten = max(memory.judged_until, starts[0].at)
    return msgspec.structs.replace(memory, starts=starts[1:], judged_until=forgotten)


def with_run(
    memory: AwaitedStarts, run: RunState, *, event: RunEvent | None = None
) -> AwaitedStarts:
    """Keep the start that a run stands for, where it may be an awaited one."""
    start = start_of(run, event=event)
    return memory if start is None else with_start(memory, start)


def match_starts(memory: AwaitedStarts, *, as_of: datetime, due_at: datetime) -> AwaitedOutcome:
    """Match what is due with starts, in order of time, up to where the result changes."""
    if (ended_at := _expectation_ended_at(memory)) is not None:
        left = msgspec.structs.replace(memory, missed=())
        return AwaitedOutcome(memory=left, ok=Ok(at=ended_at), has_more=True)
    starts = _matching(memory)
    until = max([as_of, *(start.at for start in starts)]) + EARLY
    ahead = _ahead(memory, until)
    if len(ahead) == _AT_ONCE:
        until = ahead.pop().at
        starts = [start for start in starts if start.at < until]
    got = assigned([*memory.missed, *ahead], starts)
    late = [expected for expected in memory.missed if expected.at in got]
    if late:
        return _caught_up(memory, late[-1].at, got[late[-1].at][0])
    if memory.missed and ahead and ahead[0].at in got:
        # The next one came, so those before it are skipped, and over.
        return _caught_up(memory, memory.judged_until, got[ahead[0].at][0])
    return _with_due(memory, ahead, got, due_at=due_at, until=until)


def upcoming(memory: AwaitedStarts) -> tuple[datetime, ...]:
    """Return the next expected time that no start has met, perhaps late, and the one after it.

    Whether one was missed is decided when its grace is over, but a start that came is known.
    """
    if memory.next_at is None:
        return ()
    starts = _matching(memory)
    until = max([memory.next_at, *(start.at for start in starts)]) + EARLY
    ahead = _ahead(memory, until)
    got = assigned(ahead, starts)
    open_times = [expected.at for expected in ahead if expected.at not in got]
    later = _next_time(memory, max(until, memory.judged_until))
    open_times += [later] if later is not None else []
    return tuple(open_times[:2]) or (() if ahead else (memory.next_at,))


def _ahead(memory: AwaitedStarts, until: datetime) -> list[ExpectedStart]:
    """Return the first times that are not judged yet."""
    begin, days_off = memory.judged_until, memory.days_off
    return times(memory.definitions, begin, until, limit=_AT_ONCE, days_off=days_off)


def _next_time(memory: AwaitedStarts, after: datetime) -> datetime | None:
    return next_time(memory.definitions, after, days_off=memory.days_off)


def _matching(memory: AwaitedStarts) -> list[ObservedStart]:
    """Return the starts that may be assigned to expected times."""
    return [start for start in memory.starts if start.is_scheduled or memory.expect is not None]


def _expectation_ended_at(memory: AwaitedStarts) -> datetime | None:
    """Return since when nothing can come any more for what was missed; None while it can.

    That is when all was switched off or deleted; or when nothing is to come and anybody has
    started the pipeline since.
    """
    if not memory.missed or _next_time(memory, memory.judged_until) is not None:
        return None
    current = newest(memory.definitions).values()
    if not any(definition.triggers or definition.is_over for definition in current):
        return max((definition.since for definition in current), default=memory.read_at)
    started = (start.at for start in memory.starts if start.at >= memory.missed[-1].at)
    return min(started, default=None)


def _caught_up(memory: AwaitedStarts, until: datetime, start: ObservedStart) -> AwaitedOutcome:
    missed = tuple(expected for expected in memory.missed if expected.at > until)
    memory = msgspec.structs.replace(memory, missed=missed)
    evidence = (start.event,) if start.event else ()
    ok = None if missed else Ok(at=start.at, evidence=evidence)
    return AwaitedOutcome(memory=memory, ok=ok, has_more=True)


def _with_due(
    memory: AwaitedStarts,
    ahead: Sequence[ExpectedStart],
    got: Mapping[datetime, Sequence[ObservedStart]],
    *,
    due_at: datetime,
    until: datetime,
) -> AwaitedOutcome:
    missed, used, judged_until = list(memory.missed), set[str](), memory.judged_until
    for expected in ahead:
        known_at = expected.at if expected.at in got else expected.last_at
        if known_at > due_at or (expected.at in got and missed):
            break
        judged_until = expected.at
        if expected.at in got:
            used.update(start.key for start in got[expected.at])
        else:
            missed.append(expected)
    if judged_until == memory.judged_until:
        return AwaitedOutcome(memory=memory)
    rest = [expected.at for expected in ahead if expected.at > judged_until]
    after = msgspec.structs.replace(
        memory,
        judged_until=judged_until,
        definitions=without_history(memory.definitions, judged_until),
        next_at=rest[0] if rest else _next_time(memory, max(judged_until, until)),
        missed=tuple(missed[-_KEPT_MISSED:]),
        count=memory.count + len(missed) - len(memory.missed),
    )
    open_since = after.open_since
    kept = [start for start in memory.starts if start.at >= open_since]
    # The last job group of a flow run may begin long after the run, and is no start of its own.
    spent = (*memory.used, *(start for start in kept if start.key in used))
    after = msgspec.structs.replace(
        after,
        starts=tuple(start for start in kept if start.key not in used),
        used=tuple(start for start in spent[-_KEPT_USED:] if start.at >= open_since - _USED_FOR),
    )
    has_more = after.is_due(due_at) or _expectation_ended_at(after) is not None
    return AwaitedOutcome(memory=after, has_more=has_more)


def next_evaluation(memory: AwaitedStarts, grace: timedelta, *, as_of: datetime) -> datetime | None:
    """Return when the next expected time is due; None where schedules must be read first."""
    if memory.next_at is None:
        return None
    passes = (memory.next_at, last_pass(memory.definitions, memory.next_at))
    return min((at + grace for at in passes if at + grace > as_of), default=None)
