"""Which starts of one flow or plan are awaited, came, and did not come. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.alerting.rules.expected_starts import (
    ExpectedStart,
    ScheduleDefinition,
    ScheduleReadings,
    changed,
    newest,
    next_time,
    times,
    without_history,
)
from monitor.alerting.rules.facts import FlowOrPlanFacts
from monitor.alerting.rules.observed_starts import EARLY, ObservedStart, assigned, start_of
from monitor.alerting.settings.rules import RuleSettings
from monitor.model.live_state import ActiveRun
from monitor.model.triggers import CronTrigger

_AT_ONCE = 500  # expected times in one look; more of them wait for the next
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
    next_at: datetime | None = None  # the first expected time behind ``judged_until``
    starts: tuple[ObservedStart, ...] = ()  # that no expected time has got yet
    used: tuple[ObservedStart, ...] = ()  # that one has got, for as long as they may be heard again
    missed: tuple[ExpectedStart, ...] = ()  # in a row, oldest first; the newest of very many
    count: int = 0  # of all that were ever missed
    expect: str | None = None  # the rule's own expression and its zone, where it has one

    @property
    def is_over(self) -> bool:
        """True where nothing is left to wait for: every schedule is gone, and nothing is open."""
        is_listed = any(item.is_listed for item in newest(self.definitions).values())
        return not (is_listed or self.missed or self.expect)

    def is_due(self, due_at: datetime) -> bool:
        return self.next_at is not None and self.next_at <= due_at

    @property
    def open_since(self) -> datetime:
        """No start before this can be one that is awaited."""
        return (self.missed[0].at if self.missed else self.judged_until) - EARLY


class AwaitedOutcome(Struct, frozen=True, kw_only=True):
    """``ended_by`` is the start that ended a row of missed ones. ``has_more``: look again."""

    memory: AwaitedStarts
    ended_by: ObservedStart | None = None
    has_more: bool = False


def begun(
    facts: FlowOrPlanFacts, rule: RuleSettings, *, as_of: datetime, read_at: datetime
) -> AwaitedStarts | None:
    """Return what is awaited from now on; None where nothing is expected at all."""
    if not facts.schedules and rule.expect is None:
        return None
    # What has already started was heard before there was a memory to keep it, and may have been
    # a little before its time.
    started = [
        status.last_started_at
        for status in facts.pipeline_health
        if status.last_started_at is not None
    ]
    created = [
        active.run.created_at for active in facts.active if active.run.created_at is not None
    ]
    begin = max(
        as_of, read_at, *(last_started_at + EARLY for last_started_at in (*started, *created))
    )
    memory = AwaitedStarts(judged_until=begin, read_at=read_at, expect=expectation(rule))
    if rule.expect is None:
        definitions = changed(
            (), facts.schedules, ScheduleReadings(held_at=read_at, read_at=read_at)
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


def read(
    memory: AwaitedStarts, facts: FlowOrPlanFacts, rule: RuleSettings, *, read_at: datetime
) -> AwaitedStarts:
    """Take in what the schedules say now; the same object where that is nothing new."""
    if rule.expect is not None or read_at <= memory.read_at:
        return memory
    readings = ScheduleReadings(
        held_at=memory.read_at, before=facts.schedules_read_before, read_at=read_at
    )
    definitions = changed(memory.definitions, facts.schedules, readings)
    if definitions is memory.definitions:
        return memory
    return _with_definitions(memory, definitions, read_at=read_at)


def _with_definitions(
    memory: AwaitedStarts, definitions: tuple[ScheduleDefinition, ...], *, read_at: datetime
) -> AwaitedStarts:
    earlier = times(definitions, memory.judged_until, read_at, limit=1)
    later = next_time(definitions, max(memory.judged_until, read_at))
    return msgspec.structs.replace(
        memory,
        definitions=definitions,
        read_at=read_at,
        next_at=earlier[0].at if earlier else later,
    )


def with_start(memory: AwaitedStarts, start: ObservedStart) -> AwaitedStarts:
    """Keep a start that may be an awaited one; the same object for any other, or a known one."""
    is_of_use = start.is_scheduled or memory.expect is not None or bool(memory.missed)
    if not is_of_use or start.at < memory.open_since:
        return memory
    if any(other_start.key == start.key for other_start in (*memory.starts, *memory.used)):
        return memory
    starts = tuple(sorted((*memory.starts, start), key=lambda other_start: other_start.at))
    if len(starts) <= _KEPT_STARTS:
        return msgspec.structs.replace(memory, starts=starts)
    # Whether what is older was met nobody can tell any more, so nobody is told that it was not.
    forgotten = max(memory.judged_until, starts[0].at)
    return msgspec.structs.replace(memory, starts=starts[1:], judged_until=forgotten)


def with_active(memory: AwaitedStarts, active: Iterable[ActiveRun]) -> AwaitedStarts:
    """Add what runs now: its pipeline or trigger may have been learned after its last event."""
    for other_active in active:
        start = start_of(other_active.run)
        if start is not None:
            memory = with_start(memory, start)
    return memory


def over(memory: AwaitedStarts) -> tuple[AwaitedStarts, datetime] | None:
    """Return what is left, and since when, where nothing can come any more for what was missed.

    That is when all was switched off or deleted; or when nothing is to come and anybody has
    started the pipeline since.
    """
    if not memory.missed or next_time(memory.definitions, memory.judged_until) is not None:
        return None
    current = newest(memory.definitions).values()
    left = msgspec.structs.replace(memory, missed=())
    if not any(item.triggers or item.is_over for item in current):
        return left, max((item.since for item in current), default=memory.read_at)
    started = [start.at for start in memory.starts if start.at >= memory.missed[-1].at]
    return (left, min(started)) if started else None


def settled(memory: AwaitedStarts, *, as_of: datetime, due_at: datetime) -> AwaitedOutcome:
    """Judge what is due, in its order, up to where the verdict changes."""
    starts = [start for start in memory.starts if start.is_scheduled or memory.expect is not None]
    until = max([as_of, *(start.at for start in starts)]) + EARLY
    ahead = times(memory.definitions, memory.judged_until, until, limit=_AT_ONCE)
    if len(ahead) == _AT_ONCE:
        until = ahead.pop().at
        starts = [start for start in starts if start.at < until]
    got = assigned([*memory.missed, *ahead], starts)
    late = [item for item in memory.missed if item.at in got]
    if late:
        return _made_up_for(memory, late[-1].at, got[late[-1].at][0])
    if memory.missed and ahead and ahead[0].at in got:
        # The next one came, so those before it are skipped, and over.
        return _made_up_for(memory, memory.judged_until, got[ahead[0].at][0])
    return _judged(memory, ahead, got, due_at=due_at, until=until)


def _made_up_for(memory: AwaitedStarts, until: datetime, start: ObservedStart) -> AwaitedOutcome:
    missed = tuple(item for item in memory.missed if item.at > until)
    memory = msgspec.structs.replace(memory, missed=missed)
    return AwaitedOutcome(memory=memory, ended_by=start, has_more=True)


def _judged(
    memory: AwaitedStarts,
    ahead: Sequence[ExpectedStart],
    got: Mapping[datetime, Sequence[ObservedStart]],
    *,
    due_at: datetime,
    until: datetime,
) -> AwaitedOutcome:
    missed, used, judged_until = list(memory.missed), set[str](), memory.judged_until
    for expected in ahead:
        if expected.at > due_at or (expected.at in got and missed):
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
        next_at=rest[0] if rest else next_time(memory.definitions, max(judged_until, until)),
        missed=tuple(missed[-_KEPT_MISSED:]),
        count=memory.count + len(missed) - len(memory.missed),
    )
    open_since = after.open_since
    kept = [start for start in memory.starts if start.at >= open_since]
    # The last job group of a flow run may begin long after the run, and is no start of its own.
    spent = (*memory.used, *(run for run in kept if run.key in used))
    after = msgspec.structs.replace(
        after,
        starts=tuple(run for run in kept if run.key not in used),
        used=tuple(item for item in spent[-_KEPT_USED:] if item.at >= open_since - _USED_FOR),
    )
    has_more = after.is_due(due_at) or over(after) is not None
    return AwaitedOutcome(memory=after, has_more=has_more)


def next_look(memory: AwaitedStarts, grace: timedelta, *, as_of: datetime) -> datetime | None:
    """Return when the next expected time can be judged; None where a reading must come first."""
    due_at = None if memory.next_at is None else memory.next_at + grace
    return due_at if due_at is not None and due_at > as_of else None
