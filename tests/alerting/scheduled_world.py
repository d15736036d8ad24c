"""Flows that start when the minutes of the wall say so, or late, or not at all.

What should start is computed minute by minute, without the calendar of the monitor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind
from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    ScheduleTrigger,
    Weekday,
    WeeklyTrigger,
)
from tests.schedules.minutes import Minutes

MINUTE = timedelta(minutes=1)
GRACE = 10 * MINUTE


@dataclass(frozen=True, kw_only=True)
class Rhythm:
    """What a schedule says, and the same as a question to a minute of the wall."""

    triggers: Callable[[str], tuple[ScheduleTrigger, ...]]
    fits: Callable[[datetime], bool]
    is_every_hour: bool = False


def _at(hour: int, minute: int) -> Callable[[datetime], bool]:
    return lambda wall: (wall.hour, wall.minute) == (hour, minute)


NIGHTLY = Rhythm(
    triggers=lambda zone: (DailyTrigger(hour_of_day=2, minute_of_hour=30, timezone=zone),),
    fits=_at(2, 30),
)
MIDNIGHT = Rhythm(
    triggers=lambda zone: (CronTrigger(expression="0 0 0 * * ?", timezone=zone),), fits=_at(0, 0)
)
HOURLY = Rhythm(
    triggers=lambda zone: (HourlyTrigger(minute_of_hour=15, timezone=zone),),
    fits=lambda wall: wall.minute == 15,
    is_every_hour=True,
)
EARLY = Rhythm(
    triggers=lambda zone: (CronTrigger(expression="0 0/40 0-4 * * ?", timezone=zone),),
    fits=lambda wall: wall.hour <= 4 and wall.minute in (0, 40),
)
WORKDAYS = Rhythm(
    triggers=lambda zone: (
        DailyTrigger(hour_of_day=8, minute_of_hour=5, only_working_days=True, timezone=zone),
        WeeklyTrigger(
            hour_of_day=1,
            minute_of_hour=45,
            days_of_week=(Weekday.SUNDAY, Weekday.MONDAY),
            timezone=zone,
        ),
    ),
    fits=lambda wall: (
        (wall.weekday() < 5 and _at(8, 5)(wall)) or (wall.weekday() in (0, 6) and _at(1, 45)(wall))
    ),
)
NEVER = Rhythm(triggers=lambda _: (), fits=lambda _: False)
# What each flow's schedule says first, and after an edit; the last one is switched off for days.
PLANS = (
    (NIGHTLY,),
    (MIDNIGHT,),
    (HOURLY,),
    (EARLY, NIGHTLY),
    (NIGHTLY, WORKDAYS),
    (WORKDAYS, NEVER, EARLY),
)


@dataclass(kw_only=True)
class ScheduledFlow:
    """``definitions`` are those of its schedule over time, ``starts`` what became of each time."""

    pipeline: Pipeline
    definitions: list[tuple[datetime, Rhythm]]
    starts: dict[datetime, datetime | None] = field(default_factory=dict)

    def schedule(self, now: datetime, zone: str) -> ScheduleKnown:
        """Return the schedule as a reading shows it."""
        since, rhythm = [entry for entry in self.definitions if entry[0] <= now][-1]
        triggers = rhythm.triggers(zone)
        return ScheduleKnown(
            id=self.pipeline.id,
            name=f"schedule of {self.pipeline.name}",
            is_enabled=bool(triggers),
            triggers=triggers or self.definitions[0][1].triggers(zone),
            pipelines=(self.pipeline,),
            created_at=self.definitions[0][0],
            updated_at=since,
        )

    def missed(self, polls: Sequence[datetime]) -> list[datetime]:
        """Return the times that had not started at the first poll after their grace."""
        found = []
        for at, started_at in self.starts.items():
            judged_at = next((poll for poll in polls if poll >= at + GRACE), None)
            if judged_at is not None and (started_at is None or started_at > judged_at):
                found.append(at)
        return found


def flows_of(
    zone: str, begin: datetime, end: datetime, *, polls: Sequence[datetime], seed: int
) -> list[ScheduledFlow]:
    """Return flows whose schedules are edited now and then; some starts are skipped or late."""
    minutes = Minutes(ZoneInfo(zone), begin, end)
    times = {
        id(rhythm): minutes.times(rhythm.fits, is_every_hour=rhythm.is_every_hour)
        for plan in PLANS
        for rhythm in plan
    }
    chance = Random(seed)  # noqa: S311 - the same fates in every run
    made = []
    for number, plan in enumerate(PLANS, 1):
        definitions = _edited(plan, begin, polls, lambda rhythm: times[id(rhythm)])
        flow = ScheduledFlow(
            pipeline=Pipeline(kind=PipelineKind.FLOW, id=str(number), name=f"flow {number}"),
            definitions=definitions,
        )
        for at in _in_force(definitions, end, lambda rhythm: times[id(rhythm)]):
            if at > begin + 2 * MINUTE:
                flow.starts[at] = _start(at, chance, is_settled=at > end - timedelta(days=1))
        made.append(flow)
    return made


def _edited(
    plan: Sequence[Rhythm],
    begin: datetime,
    polls: Sequence[datetime],
    times: Callable[[Rhythm], list[datetime]],
) -> list[tuple[datetime, Rhythm]]:
    """Let each edit lie where no time of either rhythm is in doubt."""
    definitions = [(begin - timedelta(days=30), plan[0])]
    for number, rhythm in enumerate(plan[1:], 1):
        former = definitions[-1][1]
        share = len(polls) * number // len(plan)
        for before, poll in zip(polls[share:], polls[share + 1 :], strict=False):
            edited_at = poll - 7 * MINUTE
            if not any(before < instant <= poll for instant in (*times(former), *times(rhythm))):
                definitions.append((edited_at, rhythm))
                break
    return definitions


def _in_force(
    definitions: Sequence[tuple[datetime, Rhythm]],
    end: datetime,
    times: Callable[[Rhythm], Iterable[datetime]],
) -> list[datetime]:
    ends = [since for since, _ in definitions[1:]] + [end]
    return [
        at
        for (since, rhythm), until in zip(definitions, ends, strict=True)
        for at in times(rhythm)
        if since < at <= until
    ]


def _start(at: datetime, chance: Random, *, is_settled: bool) -> datetime | None:
    fate = chance.random()
    if fate < 0.05 and not is_settled:
        return None
    if fate < 0.1 and not is_settled:
        return at + timedelta(minutes=chance.uniform(11, 25))
    return at + timedelta(seconds=chance.uniform(0, 120))
