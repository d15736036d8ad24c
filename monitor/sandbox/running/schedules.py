"""Lets the schedules fire, by the workspace's wall time; ``speed`` has no say in it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import structlog

from monitor.model.triggers import UnsupportedTrigger
from monitor.sandbox.running.engine import Engine
from monitor.sandbox.running.flows import NothingToRunError
from monitor.sandbox.world.records.objects import Schedule, ScheduleHistory
from monitor.sandbox.world.records.runs import RanFrom
from monitor.sandbox.world.shelves import World
from monitor.schedules import next_after, times_between

log = structlog.get_logger()

_LONGEST_SLEEP_SECONDS = 60.0  # so that a clock that was set is noticed
OVER = "no trigger will fire again"
_CATCH_UP = 1  # of several times that passed without a check, a schedule fires this many


class ScheduleRunner:
    """Starts what schedules name, when they name it."""

    def __init__(self, world: World, engine: Engine) -> None:
        self._world = world
        self._engine = engine
        self._is_stopped = False
        self._late: list[tuple[datetime, Schedule]] = []

    def stop(self) -> None:
        """Fire no more."""
        self._is_stopped = True

    async def run(self) -> None:
        """Fire until stopped or cancelled. What was due before is not made up for."""
        checked_at = self._world.now()
        while not self._is_stopped:
            await self._wait(self._seconds_to_next(checked_at))
            now = self._world.now()
            if now > checked_at and not self._is_stopped:
                self._fire_late_ones(now)
                for schedule in self._enabled():
                    self._fire_if_due(schedule, checked_at, now)
                checked_at = now

    def _enabled(self) -> list[Schedule]:
        return [schedule for schedule in self._world.schedules.live() if schedule.enabled]

    def _seconds_to_next(self, checked_at: datetime) -> float:
        horizon = checked_at + timedelta(seconds=_LONGEST_SLEEP_SECONDS)
        soonest = min(
            (
                time
                for schedule in self._enabled()
                for time in times_between(schedule.triggers, checked_at, horizon, limit=1)
            ),
            default=horizon,
        )
        soonest = min([soonest, *(at for at, _ in self._late)])
        return max(0.0, (soonest - self._world.now()).total_seconds())

    async def _wait(self, seconds: float) -> None:
        """Return after ``seconds``, or when a schedule has changed."""
        sleep = asyncio.create_task(self._world.clock.sleep(seconds), name="until-next-schedule")
        change = asyncio.create_task(self._engine.changed_schedules.wait(), name="schedule-change")
        try:
            await asyncio.wait({sleep, change}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            change.cancel()
        self._engine.changed_schedules.clear()

    def _fire_if_due(self, schedule: Schedule, begin: datetime, now: datetime) -> None:
        # A schedule that was changed meanwhile was not there before its change.
        begin = max(begin, schedule.updated_at)
        for at in times_between(schedule.triggers, begin, now, limit=_CATCH_UP):
            self._fire_unless_at_fault(schedule, at)
            self._end_if_over(schedule, now)

    def _fire_unless_at_fault(self, schedule: Schedule, at: datetime) -> None:
        options = self._world.options
        chance = self._world.random("fault", "schedules", schedule.id, at.isoformat())
        fate = chance.random()
        if fate < options.schedules_skipped or schedule.is_skipped:
            log.info("a schedule is skipped by fault", schedule=schedule.id, at=at.isoformat())
        elif fate < options.schedules_skipped + options.schedules_late:
            self._late.append((at + timedelta(seconds=options.schedules_late_seconds), schedule))
        else:
            self.fire(schedule)

    def _fire_late_ones(self, now: datetime) -> None:
        due = [item for item in self._late if item[0] <= now]
        self._late = [item for item in self._late if item[0] > now]
        for _, schedule in due:
            if schedule.deleted_at is None:
                self.fire(schedule)

    def _end_if_over(self, schedule: Schedule, now: datetime) -> None:
        """Switch off what has fired for the last time: once only, or at the end of its range."""
        if any(
            isinstance(trigger, UnsupportedTrigger) or next_after(trigger, now) is not None
            for trigger in schedule.triggers
        ):
            return
        self._world.update(schedule, enabled=False, disable_reason=OVER)

    def fire(self, schedule: Schedule) -> None:
        """Start now what a schedule names, as at one of its times."""
        history = self._history(schedule)
        for task in schedule.tasks:
            try:
                if task.kind == "plan" and (plan := self._world.plans.get(task.target_id)):
                    self._engine.start_plan_run(
                        plan,
                        by=schedule.creator_id,
                        ran_from=RanFrom.SCHEDULE,
                        schedule_history_id=history.id,
                    )
                elif task.kind == "flow" and (flow := self._world.flows.get(task.target_id)):
                    self._engine.start_flow_run(
                        flow,
                        by=schedule.creator_id,
                        ran_from=RanFrom.SCHEDULE,
                        schedule_execution_id=history.id,
                    )
            except NothingToRunError as exc:
                log.warning("a schedule had nothing to run", schedule=schedule.id, reason=str(exc))

    def _history(self, schedule: Schedule) -> ScheduleHistory:
        """Return the record of the schedule's present definition, made when it first fires."""
        for history in self._world.schedule_histories.having("schedule_id", schedule.id):
            if history.created_at >= schedule.updated_at:
                return history
        return self._world.create(
            ScheduleHistory,
            by=schedule.creator_id,
            schedule_id=schedule.id,
            name=schedule.name,
            triggers=schedule.triggers,
            tasks=schedule.tasks,
            enabled=schedule.enabled,
            documents=schedule.documents,
        )
