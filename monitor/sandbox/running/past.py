"""Lets the past of a workspace happen: schedules at their times, people in their hours.

The engine itself makes the runs, by a clock that jumps. So they are the records that it makes of
runs that anybody waited for, and what is not over at the end goes on in the present.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

import structlog

from monitor.sandbox.running.engine import Engine
from monitor.sandbox.running.rhythm import busyness
from monitor.sandbox.running.schedules import ScheduleRunner
from monitor.sandbox.running.tasks import PastClock
from monitor.sandbox.running.traffic import Traffic
from monitor.sandbox.world.shelves import World
from monitor.schedules import times_between

log = structlog.get_logger()

_DAY = timedelta(days=1)
_SCHEDULED_AT_MOST = 30_000  # starts: so the past of any workspace takes a bounded time
_SECONDS_OF_A_DAY = 86_400  # no schedule fires more often than each second

Start = tuple[datetime, Callable[[], None]]


class Past:
    """Makes runs of the time before the present. To be used before anything runs."""

    def __init__(
        self, world: World, engine: Engine, *, schedules: ScheduleRunner, traffic: Traffic
    ) -> None:
        self._world = world
        self._engine = engine
        self._schedules = schedules
        self._traffic = traffic

    def happen(self, begin: datetime, until: datetime) -> None:
        """Let happen what starts after ``begin``, as it stands at ``until``; then comes later.

        It begins later where schedules would have started very many runs.
        """
        starts, begin = self._scheduled(begin, until)
        starts += self._by_people(begin, until)
        starts.sort(key=lambda start: start[0])
        present, past = self._world.clock, PastClock(begin)
        self._world.clock = past
        try:
            self._engine.live_through(past, lambda: _start(starts, past), until=until)
        finally:
            self._world.clock = present

    def _scheduled(self, begin: datetime, until: datetime) -> tuple[list[Start], datetime]:
        """Return what the schedules start, and since when: of too many starts the newest."""
        enabled = [schedule for schedule in self._world.schedules.live() if schedule.enabled]
        starts: list[Start] = []
        day_begin = until
        while day_begin > begin:
            if len(starts) > _SCHEDULED_AT_MOST:
                log.info("the past begins later, by very many starts", begin=day_begin.isoformat())
                break
            day_begin, day_end = max(begin, day_begin - _DAY), day_begin
            for schedule in enabled:
                since = max(day_begin, schedule.updated_at)
                starts += [
                    (at, partial(self._schedules.fire, schedule))
                    for at in times_between(
                        schedule.triggers, since, day_end, limit=_SECONDS_OF_A_DAY
                    )
                ]
        return starts, day_begin

    def _by_people(self, begin: datetime, until: datetime) -> list[Start]:
        """Return what people start, each kind at its rate, as busy as they are at that time."""
        starts: list[Start] = []
        for name, (rate, start) in self._traffic.kinds().items():
            if rate <= 0:
                continue
            chance = self._world.random("past", name, begin.isoformat())
            at = begin
            while (at := at + timedelta(hours=chance.expovariate(rate))) <= until:
                if chance.random() < busyness(at):
                    starts.append((at, partial(start, chance)))
        return starts


async def _start(starts: list[Start], clock: PastClock) -> None:
    for at, start in starts:
        await clock.sleep((at - clock.now()).total_seconds())
        start()
