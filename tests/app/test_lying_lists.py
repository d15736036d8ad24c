"""A workspace whose lists come empty for a while, with 200: nothing follows, nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import Recipe
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.clocks import FastClock

LISTS = ("changes", "reconciliation", "names", "schedules")


def recipes_of_three_flows(workspace: Sandbox) -> list[Recipe]:
    runnable = (
        recipe for recipe in workspace.world.recipes.live() if workspace.world.outputs_of(recipe.id)
    )
    return list({recipe.flow_id: recipe for recipe in runnable}.values())[:3]


def start(workspace: Sandbox, recipe: Recipe, outcome: Outcome) -> str:
    """Start a job group that ends so, and return its id."""
    workspace.engine.order(Order(flow_id=recipe.flow_id, outcome=outcome))
    return str(workspace.engine.start_job_group(recipe, by=recipe.creator_id).id)


async def status_of(face: Face, run_id: str) -> str | None:
    rows = (await face.json("/api/v1/runs"))["data"]
    return next((row["status"] for row in rows if row["id"] == run_id), None)


async def polls(face: Face, poll: str, outcome: str) -> float:
    return await face.total(
        "dataprep_monitor_polls_total", workspace="acme", poll=poll, outcome=outcome
    )


async def pipelines(face: Face) -> set[tuple[str, str]]:
    """Return every pipeline that is known, with the kind of its runs."""
    data = (await face.json("/api/v1/pipelines"))["data"]
    return {(row["run_kind"], row["pipeline_id"]) for row in data}


async def firing(face: Face) -> set[str]:
    """Return the pipelines of the alerts about failed runs that fire."""
    alerts: list[dict[str, Any]] = (await face.json("/api/v1/alerts?state=firing"))["data"]
    return {alert["pipeline"] for alert in alerts if alert["rule"] == "run_failed"}


async def test_empty_lists_resolve_nothing_and_hide_nothing_for_good(tmp_path: Path) -> None:
    """Alerts, flows, schedules and active runs outlast them; what ended meanwhile comes after."""
    clock = FastClock()
    workspace = fixture.sandbox(clock=clock)
    first, second, third = recipes_of_three_flows(workspace)
    async with (
        fixture.started(workspace) as url,
        fixture.daemon(
            fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url)),
            clock=clock,
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="it is not followed")
        failed, hanging = (
            start(workspace, first, Outcome.FAILED),
            start(workspace, second, Outcome.HANG),
        )

        async def is_under_way() -> bool:
            is_hanging = await status_of(face, hanging) == "running"
            return is_hanging and bool(await firing(face)) and await polls(face, "names", "ok") > 0

        await eventually(is_under_way, why="the failure fires no alert")
        before = await pipelines(face), await firing(face)

        workspace.world.options.missing_rows = 1.0
        hidden = start(workspace, third, Outcome.FAILED)

        async def are_doubted() -> bool:
            doubted = [await polls(face, poll, "doubted") for poll in LISTS]
            ended = workspace.world.job_groups.get(int(hidden))
            return ended is not None and ended.status.is_over and min(doubted) >= 2

        await eventually(are_doubted, why="the empty lists are believed")
        assert (await pipelines(face), await firing(face)) == before
        assert await status_of(face, hanging) == "running"
        assert await status_of(face, failed) == "failed"
        assert await status_of(face, hidden) is None

        workspace.world.options.missing_rows = 0.0

        async def is_whole() -> bool:
            return await status_of(face, hidden) == "failed"

        await eventually(is_whole, why="what ended meanwhile does not come")
