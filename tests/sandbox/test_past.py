"""A past that happens at once: its runs look, over every operation, as if time had passed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Any

import aiohttp
import msgspec
import pytest

from monitor.catalogue.operations import Edition
from monitor.model.triggers import HourlyTrigger
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, TrafficSettings, WorkSettings
from monitor.sandbox.world.records.runs import JobGroup, NativeStatus, RanFrom
from tests.clocks import ManualClock
from tests.sandbox.bench import advance_until

WORK = WorkSettings(is_regular=True, failure_factor=0.5, cancel_ratio=0.02)
QUIET = SandboxSettings(work=WORK, traffic=None, schedules_fire=False)
NO_TRAFFIC = TrafficSettings(
    flow_runs_per_hour=0, plan_runs_per_hour=0, job_groups_per_hour=0, samples_per_hour=0
)


def with_past(settings: SandboxSettings = QUIET, *, hours: float = 24) -> Sandbox:
    """Return a sandbox with a past in which schedules start little enough for a quick test."""
    sandbox = Sandbox(settings, ManualClock())
    for schedule in sandbox.world.schedules:
        if schedule.name in ("Sensors, often", "Sensors plan"):
            schedule.triggers = (HourlyTrigger(minute_of_hour=20),)
    sandbox.live_through(sandbox.world.now() - timedelta(hours=hours))
    return sandbox


@asynccontextmanager
async def served(sandbox: Sandbox) -> AsyncIterator[aiohttp.ClientSession]:
    url = await sandbox.start()
    headers = {"Authorization": f"Bearer {sandbox.token}"}
    try:
        async with aiohttp.ClientSession(url, headers=headers) as session:
            yield session
    finally:
        await sandbox.stop()


async def read(session: aiohttp.ClientSession, path: str) -> Any:
    async with session.get(f"/v4/{path}") as response:
        assert response.status == 200, (path, await response.text())
        return await response.json()


def shape(value: Any) -> Any:
    """Return what a body consists of: its keys and the types of its values, of lists the first."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value).__name__


def records(sandbox: Sandbox) -> list[str]:
    world = sandbox.world
    shelves = (world.flow_runs, world.job_groups, world.jobs, world.plan_runs, world.plan_task_runs)
    return [repr(dataclasses.astuple(run)) for shelf in shelves for run in shelf]


def ended(sandbox: Sandbox, status: NativeStatus, *, profiled: bool = False) -> JobGroup:
    """Return the newest job group that ended so, of a flow run that a person started by hand."""
    return next(
        job_group
        for job_group in sandbox.world.job_groups.newest()
        if job_group.status is status
        and job_group.flow_run_id is not None
        and job_group.ran_from is RanFrom.UI
        and job_group.plan_run_id is None
        and job_group.profiling_enabled >= profiled
    )


def test_the_seed_decides_the_past() -> None:
    """One seed and one clock give the same runs to the last field; another seed gives others."""
    first = records(with_past())
    assert len(first) > 1_000
    assert first == records(with_past())
    assert first != records(with_past(msgspec.structs.replace(QUIET, seed=2)))


def test_schedules_have_started_at_their_times() -> None:
    """Each hour of the past has the start of an hourly schedule, at its minute and in its name."""
    sandbox = with_past()
    (stock,) = sandbox.world.schedules.having("name", "Stock, hourly")
    starts = [
        run.created_at
        for run in sandbox.world.flow_runs.having("flow_id", stock.tasks[0].target_id)
        if run.schedule_execution_id is not None
    ]
    assert len(starts) == 24
    assert {(at.minute, at.second) for at in starts} == {(15, 0)}
    assert len({at.hour for at in starts}) == 24


def test_most_went_well_some_failed_with_a_reason_and_some_were_canceled() -> None:
    """Every end occurs; a failure has its reason, and a whole run ends as its parts."""
    sandbox = with_past(hours=72)
    world = sandbox.world
    ends = Counter(job_group.status for job_group in world.job_groups)
    assert ends[NativeStatus.FAILED] > 3
    assert ends[NativeStatus.CANCELED] > 3
    assert ends[NativeStatus.COMPLETE] > 0.85 * ends.total()
    for job_group in world.job_groups.having("status", NativeStatus.FAILED):
        assert any(job.error_message for job in world.jobs_of(job_group))
    for flow_run in world.flow_runs.having("status", NativeStatus.COMPLETE):
        parts = {part.status for part in world.job_groups_of(flow_run)}
        assert parts == {NativeStatus.COMPLETE}
    plan_runs = world.plan_runs.having("status", NativeStatus.COMPLETE)
    assert all(run.started_at and run.finished_at for run in plan_runs)


def seconds_by_day(sandbox: Sandbox, recipe_id: int) -> dict[int, list[float]]:
    """Return by weekday how long the job groups of a recipe worked that completed."""
    found: dict[int, list[float]] = {}
    for job_group in sandbox.world.job_groups.having("recipe_id", recipe_id):
        jobs = sandbox.world.jobs_of(job_group)
        begun, over = jobs[0].started_at, jobs[-1].finished_at
        if job_group.status is NativeStatus.COMPLETE and begun is not None and over is not None:
            day = found.setdefault(begun.weekday(), [])
            day.append((over - begun).total_seconds())
    return found


def test_durations_have_a_rhythm() -> None:
    """A recipe takes about the same time on one weekday, longer on Mondays than at weekends."""
    sandbox = with_past(hours=7 * 24)
    (flow,) = sandbox.world.flows.having("name", "Inventory")
    days = seconds_by_day(sandbox, sandbox.world.recipes_of(flow.id)[0].id)
    assert len(days) == 7
    for seconds in days.values():
        assert max(seconds) < 1.6 * min(seconds)
    assert fmean(days[0]) > 1.4 * fmean(days[5])


async def test_the_past_looks_like_the_present_over_http() -> None:
    """Of two runs with one end, one past and one waited for, each operation shows the same keys."""
    sandbox = with_past()
    past = {
        status: ended(sandbox, status) for status in (NativeStatus.COMPLETE, NativeStatus.FAILED)
    }
    clock = sandbox.world.clock
    assert isinstance(clock, ManualClock)
    async with served(sandbox) as session:
        for status, job_group in past.items():
            outcome = Outcome.COMPLETE if status is NativeStatus.COMPLETE else Outcome.FAILED
            flow = sandbox.world.flows.get(job_group.flow_id)
            assert flow is not None
            sandbox.engine.order(Order(outcome=outcome, flow_id=flow.id, count=9))
            run = sandbox.engine.start_flow_run(
                flow,
                by=job_group.creator_id,
                ran_from=RanFrom.UI,
                recipe_ids=(job_group.recipe_id,),
            )
            await advance_until(clock, lambda run=run: run.status.is_over)  # type: ignore[misc] # the type of a default
            (present,) = sandbox.world.job_groups_of(run)
            assert present.status is status
            for path in (
                "jobGroups/{id}",
                "jobGroups/{id}/status",
                "jobGroups/{id}/jobs",
                "jobGroups/{id}?embed=jobs",
                "flowRuns/{flow_run_id}",
                "flowRuns/{flow_run_id}/status",
                "flowRuns/{flow_run_id}/jobGroups",
            ):
                bodies = [
                    await read(session, path.format(id=item.id, flow_run_id=item.flow_run_id))
                    for item in (job_group, present)
                ]
                assert shape(bodies[0]) == shape(bodies[1]), path


async def test_lists_counts_profiles_and_usage_include_the_past() -> None:
    """Job library, plan runs, counts, outputs, profile and usage are those of the past's runs."""
    sandbox = with_past(msgspec.structs.replace(QUIET, edition=Edition.OPEN), hours=6)
    world = sandbox.world
    wanted = [item for item in world.job_groups if item.ran_for == "recipe"]
    profiled = ended(sandbox, NativeStatus.COMPLETE, profiled=True)
    day = world.now().date()
    async with served(sandbox) as session:
        library = await read(session, "jobLibrary?limit=1000&runBy=all")
        assert {row["id"] for row in library["data"]} >= {item.id for item in wanted}
        plan_runs = await read(session, "planSnapshotRuns?limit=1000&runBy=all")
        assert {row["id"] for row in plan_runs["data"]} == {run.id for run in world.plan_runs}
        profile = await read(session, f"jobGroups/{profiled.id}/profile")
        assert profile
        outputs = await read(session, f"jobGroups/{profiled.id}/outputs")
        assert outputs["files"]
        usage = await read(
            session, f"usages/jobMetrics/compute/from/{day - timedelta(days=1)}/to/{day}"
        )
        assert usage


async def test_the_past_counts_nowhere_and_what_is_not_over_goes_on() -> None:
    """The ledger holds the runs at work alone; they end in the present, each counted once."""
    sandbox = Sandbox(
        QUIET, clock := ManualClock(start=datetime(2026, 11, 18, 8, 15, 20, tzinfo=UTC))
    )
    sandbox.live_through(sandbox.world.now() - timedelta(hours=2), people=NO_TRAFFIC)
    active = sandbox.ledger.active()
    assert active
    assert not any(sum(counts.values()) for counts in sandbox.ledger.results().values())
    assert {(item.kind, item.run_id) for item in sandbox.ledger.transitions()} == active
    async with served(sandbox):
        await advance_until(clock, lambda: not sandbox.ledger.active())
    assert sum(sum(counts.values()) for counts in sandbox.ledger.results().values()) >= len(active)
    assert all(run.status.is_over for run in sandbox.world.flow_runs)


async def test_a_running_workspace_can_be_held() -> None:
    """In a workspace that is held nothing moves before it is opened, not even what has begun."""
    settings = msgspec.structs.replace(QUIET, is_busy_at_once=False, is_held=True)
    clock = ManualClock(start=datetime(2026, 11, 18, 8, 15, 20, tzinfo=UTC))
    sandbox = Sandbox(settings, clock)
    sandbox.live_through(sandbox.world.now() - timedelta(hours=2), people=NO_TRAFFIC)
    before = records(sandbox)
    async with served(sandbox):
        await clock.advance(3_600)
        assert records(sandbox) == before
        sandbox.open_for_work()
        await advance_until(clock, lambda: not sandbox.ledger.active())


@pytest.mark.parametrize("count", [1, 7, 8, 9, 500])
def test_so_many_flows_are_seeded_as_are_asked_for(count: int) -> None:
    """Each number gives exactly so many flows, which all can run, and a past."""
    sandbox = Sandbox(msgspec.structs.replace(QUIET, flows=count), ManualClock())
    world = sandbox.world
    assert len(world.flows) == count
    assert all(world.outputs_of(recipe.id) for recipe in world.recipes)
    assert {node.flow_id for node in world.plan_nodes} - {None} <= {flow.id for flow in world.flows}
    sandbox.live_through(world.now() - timedelta(minutes=10))


def test_more_flows_leave_the_usual_ones_as_they_are() -> None:
    """The first flows of a large workspace are those of a usual one."""
    usual, many = (
        Sandbox(msgspec.structs.replace(QUIET, flows=count), ManualClock()).world.flows
        for count in (None, 300)
    )
    assert [flow.name for flow in usual] == [flow.name for flow in many][: len(usual)]
    assert len({flow.name for flow in many}) == len(many) - 1  # two are copies by name
