"""Schedules of the sandbox fire by themselves, by the workspace's wall time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    OneTimeTrigger,
    ScheduleTrigger,
    UnsupportedTrigger,
)
from monitor.sandbox.running.schedules import OVER, ScheduleRunner
from monitor.sandbox.settings import WorkSettings, WorldOptions
from monitor.sandbox.world.records.objects import Flow, Plan, Schedule, ScheduleTask
from monitor.sandbox.world.records.runs import RanFrom
from tests.sandbox.bench import ANYBODY, Bench, running

QUICK = WorkSettings(speed=1_000, cancel_ratio=0, failure_factor=0)


@asynccontextmanager
async def scheduling(options: WorldOptions | None = None) -> AsyncIterator[Bench]:
    """Give a bench on which schedules fire; it is ten o'clock UTC."""
    async with running(QUICK, options=options) as bench, asyncio.TaskGroup() as group:
        task = group.create_task(ScheduleRunner(bench.world, bench.engine).run())
        await bench.clock.advance(0.5)
        yield bench
        task.cancel()


def schedule(bench: Bench, trigger: ScheduleTrigger, *targets: Flow | Plan) -> Schedule:
    """Make an enabled schedule and notify the engine."""
    tasks = tuple(
        ScheduleTask(kind="plan" if isinstance(target, Plan) else "flow", target_id=target.id)
        for target in targets
    )
    made = bench.world.create(
        Schedule, by=ANYBODY, name="schedule", triggers=(trigger,), tasks=tasks
    )
    bench.engine.schedules_changed()
    return made


def starts(bench: Bench, kind: str = "flow_run") -> list[str]:
    return [
        transition.at.strftime("%H:%M:%S")
        for transition in bench.ledger.transitions(kind)
        if transition.before is None
    ]


async def test_a_flow_starts_at_the_time_of_its_trigger() -> None:
    """Speed does not bring the time nearer; the run names the schedule as its trigger."""
    async with scheduling() as bench:
        schedule(bench, HourlyTrigger(minute_of_hour=30), bench.flow(()))
        await bench.clock.advance(2 * 3_600)
        assert starts(bench) == ["10:30:00", "11:30:00"]
        (first, _) = bench.world.flow_runs
        assert first.ran_from is RanFrom.SCHEDULE
        (job_group,) = bench.world.job_groups_of(first)
        assert job_group.ran_from is RanFrom.SCHEDULE


async def test_a_plan_run_names_its_schedule() -> None:
    """The run's schedule history is the definition that started it, also after a change."""
    async with scheduling() as bench:
        made = schedule(bench, CronTrigger(expression="0 0 * * * ?"), bench.plan(bench.flow(())))
        await bench.clock.advance(2 * 3_600)
        bench.world.update(made, name="renamed")
        await bench.clock.advance(3_600)
        ids = [run.schedule_history_id for run in bench.world.plan_runs]
        names = [
            history.name
            for id_ in ids
            if id_ is not None and (history := bench.world.schedule_histories.get(id_))
        ]
        assert names == ["schedule", "schedule", "renamed"]
        assert ids[0] == ids[1] != ids[2]


async def test_one_schedule_may_start_several_things() -> None:
    """Every task of the schedule is started at the same time."""
    async with scheduling() as bench:
        flow = bench.flow(())
        schedule(bench, HourlyTrigger(minute_of_hour=30), flow, bench.plan(bench.flow(())))
        await bench.clock.advance(3_000)
        assert starts(bench, "plan_run") == ["10:30:00"]
        assert next(iter(bench.world.flow_runs)).flow_id == flow.id


async def test_disabled_and_deleted_schedules_are_silent() -> None:
    """Switching off takes effect at once, and on again only for times to come."""
    async with scheduling() as bench:
        off = schedule(bench, HourlyTrigger(minute_of_hour=30), bench.flow(()))
        gone = schedule(bench, HourlyTrigger(minute_of_hour=40), bench.flow(()))
        bench.world.update(off, enabled=False)
        bench.world.delete(gone)
        await bench.clock.advance(3_600)
        assert starts(bench) == []
        bench.world.update(off, enabled=True)
        bench.engine.schedules_changed()
        await bench.clock.advance(3_600)
        assert starts(bench) == ["11:30:00"]


async def test_a_new_schedule_is_noticed_before_its_first_time() -> None:
    """A schedule that is due in two seconds fires in two seconds."""
    async with scheduling() as bench:
        schedule(bench, CronTrigger(expression="2 0 10 * * ?"), bench.flow(()))
        await bench.clock.advance(3)
        assert starts(bench) == ["10:00:02"]


async def test_times_that_passed_before_the_schedule_are_not_made_up_for() -> None:
    """Times of a schedule before it existed do not count."""
    async with scheduling() as bench:
        await bench.clock.advance(50)
        schedule(bench, CronTrigger(expression="20 0 10 * * ?"), bench.flow(()))
        await bench.clock.advance(600)
        assert starts(bench) == []


async def test_after_a_sleep_of_the_machine_a_schedule_fires_once() -> None:
    """Of many times that went by unseen one is made up for, not all."""
    async with scheduling() as bench:
        schedule(bench, CronTrigger(expression="0 * * * * ?"), bench.flow(()))
        bench.clock.set_wall(bench.clock.now() + timedelta(hours=5))
        await bench.clock.advance(90)
        # The first for the five hours as soon as they are noticed, the second in its own time.
        assert starts(bench) == ["15:00:00", "15:01:00"]


async def test_a_clock_set_back_repeats_nothing() -> None:
    """Times that have fired do not fire again."""
    async with scheduling() as bench:
        schedule(bench, HourlyTrigger(minute_of_hour=10), bench.flow(()))
        await bench.clock.advance(700)
        bench.clock.set_wall(datetime(2026, 11, 21, 10, 5, tzinfo=UTC))
        await bench.clock.advance(600)
        assert starts(bench) == ["10:10:00"]


async def test_the_workspaces_own_clock_decides() -> None:
    """With a workspace an hour ahead its schedule is an hour early, and stamped so."""
    async with scheduling(WorldOptions(clock_offset_seconds=3_600)) as bench:
        trigger = DailyTrigger(hour_of_day=11, minute_of_hour=30)
        schedule(bench, trigger, bench.flow(()))
        await bench.clock.advance(1_801)
        assert starts(bench) == ["11:30:00"]


async def test_a_schedule_without_anything_to_run_is_no_fault() -> None:
    """Its flow lost its outputs, or is gone: nothing starts and the others go on."""
    async with scheduling() as bench:
        empty, gone = bench.flow(), bench.flow(())
        schedule(bench, HourlyTrigger(minute_of_hour=10), empty, gone, bench.flow(()))
        bench.world.delete(gone)
        await bench.clock.advance(900)
        assert starts(bench) == ["10:10:00"]


async def test_a_schedule_that_fired_for_the_last_time_is_switched_off() -> None:
    """One time, or the end of a range: the schedule shows that no trigger will fire again."""
    async with scheduling() as bench:
        at = datetime(2026, 11, 21, 10, 20, tzinfo=UTC)
        once = schedule(bench, OneTimeTrigger(at=at), bench.flow(()))
        ranged = HourlyTrigger(minute_of_hour=30, valid_until=at + timedelta(hours=1))
        ending = schedule(bench, ranged, bench.flow(()))
        going_on = schedule(bench, HourlyTrigger(minute_of_hour=40), bench.flow(()))
        await bench.clock.advance(3_600)
        assert starts(bench) == ["10:20:00", "10:30:00", "10:40:00"]
        assert (once.enabled, once.disable_reason) == (False, OVER)
        assert (ending.enabled, ending.disable_reason) == (False, OVER)
        assert (going_on.enabled, going_on.disable_reason) == (True, None)


async def test_a_schedule_that_also_waits_for_data_stays_on() -> None:
    """A watcher may fire at any time, as far as a workspace knows."""
    async with scheduling() as bench:
        at = datetime(2026, 11, 21, 10, 20, tzinfo=UTC)
        made = schedule(bench, OneTimeTrigger(at=at), bench.flow(()))
        bench.world.update(made, triggers=(*made.triggers, UnsupportedTrigger(kind="fileWatcher")))
        bench.engine.schedules_changed()
        await bench.clock.advance(3_600)
        assert starts(bench) == ["10:20:00"]
        assert made.enabled


async def test_times_are_skipped_by_the_given_ratio() -> None:
    """About that share of them, the same ones with the same seed; the others are in time."""
    first, again = await _times_kept(0.3), await _times_kept(0.3)
    assert first == again
    assert 10 <= len(first) <= 20
    assert all(item.endswith(":30:00") for item in first)


async def _times_kept(ratio: float) -> list[str]:
    async with scheduling(WorldOptions(schedules_skipped=ratio)) as bench:
        schedule(bench, HourlyTrigger(minute_of_hour=30), bench.flow(()))
        await bench.clock.advance(22 * 3_600)
        return starts(bench)


async def test_late_times_come_so_much_later() -> None:
    """Each on its own, although the next one comes in between; a deleted schedule's never."""
    options = WorldOptions(schedules_late=1.0, schedules_late_seconds=4_000)
    async with scheduling(options) as bench:
        made = schedule(bench, HourlyTrigger(minute_of_hour=30), bench.flow(()))
        await bench.clock.advance(3 * 3_600)
        assert starts(bench) == ["11:36:40", "12:36:40"]
        bench.world.delete(made)
        await bench.clock.advance(2 * 3_600)
        assert starts(bench) == ["11:36:40", "12:36:40"]
