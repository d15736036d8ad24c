"""Computes when a pipeline should have started, by its schedules at each time. Pure.

A schedule is read every few minutes and may have been changed in between. It shows when it was last
written, but not what it was between two writes: a time from the read before to that last write is
expected only if the schedule named it both before and after the change.

Each observed start belongs to the newest expected time before it; a wall time that comes twice has
two passes, and either counts. A start too many there, as after a jam, makes up for an older time at
which nothing started. The parts of one start, such as the job groups of a flow whose flow run is
unknown, count once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise

import msgspec
from msgspec import Struct

from monitor.model.days_off import NO_DAYS_OFF, DaysOff
from monitor.model.events import RunEvent
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import RunKind, RunState, Trigger
from monitor.model.triggers import ScheduleTrigger, UnsupportedTrigger
from monitor.schedules import BadTriggerError, check, next_after, second_pass, times_between

_KEPT = 20  # definitions of one pipeline; the oldest go first
# One clock of the workspace may be a little behind another one of it. Of times that lie close to
# each other it is a share of what is between them, so that a late start is not the next one.
EARLY = timedelta(seconds=60)
_EARLY_SHARE = 0.1


class ScheduleDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one schedule defined from ``since`` on, until the next definition of the same one.

    Without ``triggers`` it starts nothing: it was disabled, or is gone. Between
    ``unsure_from`` and ``since`` either this or the definition before was in force.
    """

    schedule: str
    name: str
    since: datetime
    unsure_from: datetime | None = None
    triggers: tuple[ScheduleTrigger, ...] = ()
    is_over: bool = False  # disabled because nothing is to come, as one-time schedules are
    is_listed: bool = True  # False: the workspace has it no longer


class ScheduleReadings(Struct, frozen=True, kw_only=True):
    """When schedules were read: the newest time, the one before, and that of what is known."""

    known_at: datetime
    before: datetime | None = None  # what is known was still so then, if no read was missed
    read_at: datetime

    def dates(self, at: datetime | None) -> bool:
        """True where a change of that time is one that this read has brought."""
        return at is not None and self.known_at < at <= self.read_at

    def unsure_from(self, changed_at: datetime) -> datetime:
        """Return until when nothing had changed, of what was last written at ``changed_at``."""
        if self.before is not None and self.known_at < self.before < changed_at < self.read_at:
            return self.before
        return self.known_at


class ExpectedStart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One time at which a run should have started, and the schedules that define it.

    ``again_at``: that wall time comes twice, and the run may have started the second time instead.
    """

    at: datetime
    schedules: str
    again_at: datetime | None = None

    @property
    def last_at(self) -> datetime:
        return self.again_at or self.at


def changed(
    known: tuple[ScheduleDefinition, ...],
    schedules: Sequence[ScheduleKnown],
    readings: ScheduleReadings,
) -> tuple[ScheduleDefinition, ...]:
    """Return what is known with what a read brought; the same object where it brought nothing."""
    current = newest(known)
    fresh: list[ScheduleDefinition] = []
    for schedule in schedules:
        before = current.pop(schedule.id, None)
        after = _definition(schedule, since=_changed_at(schedule, before, readings))
        if before is None:
            fresh.append(after)
        elif _content(before) != _content(after):
            # What is over was disabled by its last start, and was sure until then.
            is_sure = after.is_over and readings.dates(schedule.updated_at)
            unsure_from = None if is_sure else readings.unsure_from(after.since)
            fresh.append(msgspec.structs.replace(after, unsure_from=unsure_from))
    fresh += [
        ScheduleDefinition(
            schedule=gone.schedule,
            name=gone.name,
            since=readings.read_at,
            unsure_from=readings.known_at,
            is_listed=False,
        )
        for gone in current.values()
        if gone.is_listed
    ]
    return (*known, *fresh)[-_KEPT:] if fresh else known


def newest(definitions: Iterable[ScheduleDefinition]) -> dict[str, ScheduleDefinition]:
    """Return the definition in force of each schedule."""
    return {definition.schedule: definition for definition in definitions}


def without_history(
    definitions: tuple[ScheduleDefinition, ...], before: datetime
) -> tuple[ScheduleDefinition, ...]:
    """Drop what no time after ``before`` can need any more."""
    kept: list[ScheduleDefinition] = []
    successors: dict[str, ScheduleDefinition] = {}
    for definition in reversed(definitions):
        successor = successors.get(definition.schedule)
        if successor is None and not definition.is_listed:
            successor = definition  # what is gone is replaced by nothing
        if successor is None or successor.since > before:
            kept.append(definition)
        successors[definition.schedule] = definition
    return definitions if len(kept) == len(definitions) else tuple(reversed(kept))


def times(
    definitions: Sequence[ScheduleDefinition],
    begin: datetime,
    end: datetime,
    *,
    limit: int,
    days_off: DaysOff = NO_DAYS_OFF,
) -> list[ExpectedStart]:
    """Return what was expected after ``begin`` and not after ``end``, ascending, the first ones.

    Two schedules that name one time expect one start.
    """
    names: dict[datetime, list[str]] = {}
    for schedule in newest(definitions):
        history = [definition for definition in definitions if definition.schedule == schedule]
        for at in _times_of(history, begin, end, limit=limit, days_off=days_off):
            names.setdefault(at, []).append(history[-1].name)
    return [
        ExpectedStart(
            at=at, schedules=", ".join(names[at]), again_at=second_pass(_triggers(definitions), at)
        )
        for at in sorted(names)[:limit]
    ]


def last_pass(definitions: Iterable[ScheduleDefinition], at: datetime) -> datetime:
    """Return until when the start that is expected ``at`` is in time, but for the rule's grace."""
    return second_pass(_triggers(definitions), at) or at


def _triggers(definitions: Iterable[ScheduleDefinition]) -> list[ScheduleTrigger]:
    return [trigger for definition in definitions for trigger in definition.triggers]


def next_time(
    definitions: Iterable[ScheduleDefinition], after: datetime, *, days_off: DaysOff = NO_DAYS_OFF
) -> datetime | None:
    """Return the first time that the definitions in force name after that instant."""
    coming = (
        next_after(trigger, max(after, definition.since), days_off=days_off)
        for definition in newest(definitions).values()
        for trigger in definition.triggers
    )
    return min((at for at in coming if at is not None), default=None)


def _times_of(
    history: Sequence[ScheduleDefinition],
    begin: datetime,
    end: datetime,
    *,
    limit: int,
    days_off: DaysOff,
) -> list[datetime]:
    between = partial(_between, limit=limit, days_off=days_off)
    found: list[datetime] = []
    for definition, successor in zip(history, (*history[1:], None), strict=True):
        start = max(begin, definition.since)
        if successor is None:
            found += between(definition, start, end)
            continue
        until = min(end, max(definition.since, successor.since))
        sure_until = min(until, max(definition.since, successor.unsure_from or successor.since))
        unsure = max(start, sure_until)
        both = set(between(successor, unsure, until))
        found += between(definition, start, sure_until)
        found += [at for at in between(definition, unsure, until) if at in both]
    return found[:limit]


def _between(
    definition: ScheduleDefinition,
    begin: datetime,
    end: datetime,
    *,
    limit: int,
    days_off: DaysOff,
) -> list[datetime]:
    if not definition.triggers or begin >= end:
        return []
    return times_between(definition.triggers, begin, end, limit=limit, days_off=days_off)


def _content(definition: ScheduleDefinition) -> tuple[object, ...]:
    return definition.triggers, definition.is_over, definition.is_listed


def _definition(schedule: ScheduleKnown, *, since: datetime) -> ScheduleDefinition:
    triggers = tuple(trigger for trigger in schedule.triggers if can_be_computed(trigger))
    return ScheduleDefinition(
        schedule=schedule.id,
        name=schedule.name,
        since=since,
        triggers=triggers if schedule.is_enabled else (),
        is_over=not schedule.is_enabled and not may_fire_after(schedule.triggers, since),
    )


def may_fire_after(triggers: Sequence[ScheduleTrigger], instant: datetime) -> bool:
    """False where all of them have fired for the last time; no triggers never were."""
    return not triggers or any(
        not can_be_computed(trigger) or next_after(trigger, instant) is not None
        for trigger in triggers
    )


def can_be_computed(trigger: ScheduleTrigger) -> bool:
    """False for what waits for data, and for an expression that cannot be parsed."""
    if isinstance(trigger, UnsupportedTrigger):
        return False
    try:
        check(trigger)
    except BadTriggerError:
        return False
    return True


def _changed_at(
    schedule: ScheduleKnown, before: ScheduleDefinition | None, readings: ScheduleReadings
) -> datetime:
    """Return from when on its present definition is certain."""
    # One that existed before, and is listed only now, was unknown until then.
    was_hidden = before is None and not readings.dates(schedule.created_at)
    if was_hidden or schedule.updated_at is None or not readings.dates(schedule.updated_at):
        return readings.read_at
    return schedule.updated_at


class ObservedStart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One start as the workspace stamped it. ``part`` is the recipe where no flow run is known."""

    key: str
    at: datetime
    event: str = ""  # the id of the event that reported it
    part: str = ""
    is_scheduled: bool = True  # by a schedule, as far as the workspace shows


def start_of(run: RunState, *, event: RunEvent | None = None) -> ObservedStart | None:
    """Return the start that a run stands for; None where a plan started it, or no time is known.

    A plan run names its schedule or has none. A job group that names nothing may have had one.
    """
    at = run.created_at or (event.occurred_at if event is not None else None)
    if at is None or run.trigger is Trigger.PLAN or run.parents.plan_run is not None:
        return None
    key, part = f"{run.key.kind}/{run.key.id}", ""
    is_scheduled = run.trigger is Trigger.SCHEDULE
    if run.key.kind is RunKind.JOB_GROUP:
        is_scheduled = run.trigger in (Trigger.SCHEDULE, Trigger.UNKNOWN)
        if run.parents.flow_run is not None:
            key = f"{RunKind.FLOW_RUN}/{run.parents.flow_run}"
        else:
            part = run.recipe.id if run.recipe is not None else "?"
    return ObservedStart(
        key=key,
        at=at,
        event=event.id if event is not None else "",
        part=part,
        is_scheduled=is_scheduled,
    )


def assigned(
    expected: Sequence[ExpectedStart], starts: Iterable[ObservedStart]
) -> dict[datetime, list[ObservedStart]]:
    """Return the starts assigned to each expected time; a time without any is absent.

    ``expected`` is ascending. A start before all of them belongs to none.
    """
    ats = [expected_start.at for expected_start in expected]
    times = {start.again_at: start.at for start in expected if start.again_at is not None}
    times |= {at: at for at in ats}
    passes = sorted(times)
    # How much before its time a start may be stamped.
    early = min([EARLY, *((later - at) * _EARLY_SHARE for at, later in pairwise(passes))])
    starts_at: dict[datetime, list[ObservedStart]] = {}
    taken: set[tuple[datetime, str]] = set()  # passes, and the parts that started then
    spare: list[ObservedStart] = []
    for start in sorted(starts, key=lambda start: (start.at, start.key)):
        index = bisect_right(passes, start.at + early) - 1
        if index < 0:
            continue
        if (passes[index], start.part) in taken:
            spare.append(start)
        else:
            taken.add((passes[index], start.part))
            starts_at.setdefault(times[passes[index]], []).append(start)
    for start in spare:
        empty = [at for at in ats if at <= start.at and at not in starts_at]
        if empty:
            starts_at[empty[-1]] = [start]
    return starts_at
