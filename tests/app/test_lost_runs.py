"""A run that ends without a result, from the workspace that loses it to its alert."""

from __future__ import annotations

from pathlib import Path

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.runs import JobGroup
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.clocks import FastClock


def run(workspace: Sandbox, outcome: Outcome) -> JobGroup:
    """Start one recipe, always the same."""
    world = workspace.world
    recipe = next(recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id))
    workspace.engine.order(
        Order(recipe_id=recipe.id, outcome=outcome, queue_seconds=1, work_seconds=1)
    )
    return workspace.engine.start_job_group(recipe, by=recipe.creator_id)


async def alert_states(face: Face, rule: str) -> list[str]:
    alerts = (await face.json("/api/v1/alerts"))["data"]
    return [alert["state"] for alert in alerts if alert["rule"] == rule]


async def test_a_lost_run_is_an_alert_until_the_next_success(tmp_path: Path) -> None:
    """By the default rules, and explained by the run and by its alert."""
    clock = FastClock(speed=20)
    workspace = fixture.sandbox(cancel_ratio=0.0, clock=clock)
    async with (
        fixture.started(workspace) as url,
        fixture.daemon(
            fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url)),
            clock=clock,
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        gone = run(workspace, Outcome.HANG)

        async def is_known() -> bool:
            rows = (await face.json("/api/v1/runs"))["data"]
            return any(row["id"] == str(gone.id) and row["status"] == "running" for row in rows)

        await eventually(is_known, why="the run is not observed")
        workspace.engine.delete_run(gone)

        async def has(state: str) -> bool:
            return await alert_states(face, "run_lost") == [state]

        await eventually(lambda: has("firing"), why="no alert")
        explanation = await face.json(f"/api/v1/explain?run=acme/job_group/{gone.id}")
        assert "reported by alert run_lost" in explanation["answer"]
        run(workspace, Outcome.COMPLETE)
        await eventually(lambda: has("resolved"), why="the alert stays")
