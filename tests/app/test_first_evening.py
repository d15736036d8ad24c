"""The first evening with a workspace that has a week of history: what is usual is known."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from monitor.model.clock import Clock
from monitor.model.triggers import CronTrigger
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, TrafficSettings, WorkSettings
from monitor.sandbox.world.records.runs import NativeStatus
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.clocks import FastClock

WEEK = timedelta(days=7)
EVENING = datetime(2026, 11, 27, 18, 0, tzinfo=UTC)
FIRST_MINUTES = timedelta(minutes=10)
LONG_SECONDS = 120.0  # for what takes ten on an idle machine
LIMIT = "dataprep_run_duration_limit_seconds"
Learned = dict[tuple[str, str], float]  # limit by kind of run and id of flow


def workspace_with_a_week(clock: Clock) -> Sandbox:
    """Return a workspace in which flows have run for a week, and nothing starts any more."""
    traffic = TrafficSettings(
        flow_runs_per_hour=3, plan_runs_per_hour=0, job_groups_per_hour=3, samples_per_hour=0
    )
    work = WorkSettings(is_regular=True, failure_factor=0.2)
    workspace = Sandbox(SandboxSettings(work=work, traffic=traffic, schedules_fire=False), clock)
    for schedule in workspace.world.schedules.live():
        # What runs every few minutes makes thousands of runs, and shows nothing more.
        is_often = any(isinstance(trigger, CronTrigger) for trigger in schedule.triggers)
        workspace.world.update(schedule, enabled=not is_often)
    for flow in workspace.world.flows.live():
        workspace.world.update(flow, name=f"flow {flow.id}")  # two have the same name
    workspace.live_through(clock.now() - WEEK)
    workspace.stop_starting()
    return workspace


def enough_successes(workspace: Sandbox) -> set[tuple[str, str]]:
    """Return the flows, by kind of run, with at least ten successes."""
    world = workspace.world
    ends = [("job_group", run.flow_id, run.status) for run in world.job_groups.live()]
    ends += [("flow_run", run.flow_id, run.status) for run in world.flow_runs.live()]
    counts = Counter(
        (kind, str(flow_id)) for kind, flow_id, status in ends if status is NativeStatus.COMPLETE
    )
    return {of for of, count in counts.items() if count >= 10}


async def learned(face: Face, names: dict[str, str]) -> Learned:
    return {
        (sample.labels["kind"], names[sample.labels["pipeline"]]): sample.value
        for sample in await face.samples(LIMIT)
        if sample.labels["pipeline"] in names
    }


async def overdue(face: Face) -> list[dict[str, Any]]:
    alerts: list[dict[str, Any]] = (await face.json("/api/v1/alerts?state=firing"))["data"]
    return [alert for alert in alerts if alert["rule"] == "run_overdue"]


async def is_overdue(face: Face) -> bool:
    return bool(await overdue(face))


async def test_what_was_usual_is_known_on_the_first_evening(tmp_path: Path) -> None:
    """Each flow with ten successes has its limit, and three times as long a run is overdue."""
    clock = FastClock(speed=20.0, start=EVENING)
    workspace = workspace_with_a_week(clock)
    flows = {flow.name: str(flow.id) for flow in workspace.world.flows.live()}
    async with fixture.started(workspace) as url:
        acme = fixture.workspace_configuration(workspace, url)
        poll = msgspec.structs.replace(acme.poll, first_look_seconds=WEEK.total_seconds())
        settings = fixture.configuration(tmp_path, msgspec.structs.replace(acme, poll=poll))
        async with fixture.daemon(settings, clock=clock) as face:
            wanted = enough_successes(workspace)
            assert {kind for kind, _ in wanted} == {"job_group", "flow_run"}

            missing: set[tuple[str, str]] = set()

            async def all_are_learned() -> bool:
                missing.clear()
                missing.update(wanted - set(await learned(face, flows)))
                return not missing

            await eventually(
                all_are_learned, why=lambda: f"no limits of {missing}", within_seconds=LONG_SECONDS
            )
            assert clock.now() - EVENING < FIRST_MINUTES
            assert await face.total("dataprep_runs_total") == 0
            assert await overdue(face) == []

            limits = await learned(face, flows)
            recipe = next(
                recipe
                for recipe in workspace.world.recipes.live()
                if workspace.world.outputs_of(recipe.id)
                and ("job_group", str(recipe.flow_id)) in limits
            )
            limit = limits["job_group", str(recipe.flow_id)]
            order = Order(outcome=Outcome.COMPLETE, queue_seconds=1, work_seconds=3 * limit)
            workspace.engine.order(order)
            workspace.engine.start_job_group(recipe, by=recipe.creator_id)
            started_at = clock.now()

            await eventually(
                lambda: is_overdue(face), why="it is not overdue", within_seconds=LONG_SECONDS
            )
            (alert,) = await overdue(face)
            assert flows[alert["labels"]["pipeline"]] == str(recipe.flow_id)
            since = datetime.fromisoformat(alert["starts_at"]) - started_at
            assert abs(since.total_seconds() - limit) < 60
