"""What a daemon learns and expects is on its metrics page, also after a restart."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from pathlib import Path

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import Recipe
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.clocks import FastClock

# Of each of three recipes: a limit needs ten runs, and an age nine gaps between runs of one recipe.
RUNS = 4
APART_SECONDS = 500.0  # of work: seconds apart, also when a loaded machine runs the work late
LIMITS = {"dataprep_run_duration_limit_seconds", "dataprep_success_age_limit_seconds"}
EXPECTED = "dataprep_expected_start_timestamp_seconds"
MISSED = "dataprep_missed_runs_total"


async def values(face: Face, name: str) -> dict[str, float]:
    """Return one metric by pipeline."""
    return {sample.labels["pipeline"]: sample.value for sample in await face.samples(name)}


async def until_shown(face: Face, flow: str) -> None:
    """Wait until both limits of a flow and the starts of scheduled pipelines are on the page."""
    missing: list[str] = []

    async def all_are_there() -> bool:
        missing[:] = [name for name in sorted(LIMITS) if flow not in await values(face, name)]
        missing.extend(() if await values(face, EXPECTED) else (EXPECTED,))
        return not missing

    await eventually(all_are_there, why=lambda: f"not on the page: {missing}")


def recipes_of_one_flow(workspace: Sandbox) -> list[Recipe]:
    """Return those of the flow that has most."""
    flows: defaultdict[int, list[Recipe]] = defaultdict(list)
    for recipe in workspace.world.recipes.live():
        if workspace.world.outputs_of(recipe.id):
            flows[recipe.flow_id].append(recipe)
    return max(flows.values(), key=len)


def run_often(workspace: Sandbox, recipes: list[Recipe]) -> None:
    """Let runs of each recipe end one after the other."""
    for number in range(RUNS):
        for recipe in recipes:
            order = Order(
                flow_id=recipe.flow_id,
                outcome=Outcome.COMPLETE,
                queue_seconds=1,
                work_seconds=1 + APART_SECONDS * number,
            )
            workspace.engine.order(order)
            workspace.engine.start_job_group(recipe, by=recipe.creator_id)


async def test_learned_limits_are_shown_and_survive_a_restart(tmp_path: Path) -> None:
    """Ten successes make both limits, schedules make expected starts, and a restart takes none."""
    clock = FastClock()
    began = clock.now().timestamp()
    workspace = fixture.sandbox(cancel_ratio=0.0, clock=clock)
    recipes = recipes_of_one_flow(workspace)
    assert len(recipes) >= 3
    flow = next(flow for flow in workspace.world.flows.live() if flow.id == recipes[0].flow_id)
    async with fixture.started(workspace) as url:
        settings = fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url))
        async with fixture.daemon(settings, clock=clock) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            run_often(workspace, recipes)
            await until_shown(face, flow.name)
            limits = {name: (await values(face, name))[flow.name] for name in LIMITS}
            starts = await values(face, EXPECTED)
            assert min(starts.values()) > began
            assert set((await values(face, MISSED)).values()) == {0}
        async with fixture.daemon(settings, clock=clock) as face:
            await until_shown(face, flow.name)
            assert {name: (await values(face, name))[flow.name] for name in LIMITS} == limits

            async def are_expected() -> bool:
                return set(starts) <= set(await values(face, EXPECTED))

            await eventually(are_expected, why="not all starts are expected again")


async def test_a_new_daemon_knows_what_was_usual_before_it(tmp_path: Path) -> None:
    """Runs that ended before it followed the workspace make no events, and a limit at once."""
    clock = FastClock()
    workspace = fixture.sandbox(cancel_ratio=0.0, clock=clock)
    recipes = recipes_of_one_flow(workspace)
    flow = next(flow for flow in workspace.world.flows.live() if flow.id == recipes[0].flow_id)
    async with fixture.started(workspace) as url:
        for recipe in RUNS * recipes:
            order = Order(
                flow_id=flow.id, outcome=Outcome.COMPLETE, queue_seconds=1, work_seconds=30
            )
            workspace.engine.order(order)
            workspace.engine.start_job_group(recipe, by=recipe.creator_id)
        await eventually(lambda: not workspace.ledger.active(), why="the runs do not end")
        ended_at = clock.now()
        # A stamp is cut to its second: an end within the first one would count as followed.
        await eventually(
            lambda: clock.now() >= ended_at + timedelta(seconds=2), why="time stands still"
        )
        settings = fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url))
        async with fixture.daemon(settings, clock=clock) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")

            async def is_learned() -> bool:
                return flow.name in await values(face, "dataprep_run_duration_limit_seconds")

            await eventually(is_learned, why="no limit from the past")
            assert await face.total("dataprep_runs_total") == 0
            events = (await face.json("/api/v1/events?limit=1000"))["data"]
            assert [event for event in events if event["type"].startswith("dataprep.run.")] == []
