"""``kill -9`` while pipelines fail and recover: each alert is reported once, and so is its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.world.records.objects import Recipe
from tests.app.alert_messages import AlertKey, alerts_by_key
from tests.app.eventually import eventually, pause
from tests.crash.conftest import ReportCounts
from tests.crash.scene import Scene, scene

_PATIENCE_SECONDS = 60.0


def recipes_of(scene: Scene) -> list[Recipe]:
    """Return one recipe of each flow that can run."""
    world = scene.workspace.world
    recipes = {
        recipe.flow_id: recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id)
    }
    return list(recipes.values())


def received(scene: Scene) -> dict[AlertKey, list[str]]:
    """Return what was reported of failures; an id that came with two contents fails the test."""
    return {
        alert_key: words
        for alert_key, words in alerts_by_key(scene.subscriber).items()
        if alert_key[0] == "run_failed"
    }


async def end_runs(scene: Scene, recipes: list[Recipe], outcome: Outcome) -> None:
    """Let one job group of each flow end so, one after the other, for a few seconds."""
    for recipe in recipes:
        seconds = scene.chance.uniform(0.2, 1.0)
        order = Order(
            flow_id=recipe.flow_id, outcome=outcome, queue_seconds=0.1, work_seconds=seconds
        )
        scene.workspace.engine.order(order)
        scene.workspace.engine.start_job_group(recipe, by=recipe.creator_id)
        await pause(scene.chance.uniform(0.0, 0.4))


async def kill_until(scene: Scene, expected: list[list[str]], *, kills: int) -> None:
    """Kill the daemon at random moments while runs end, then wait for what must be reported."""
    for _ in range(kills):
        await pause(scene.chance.uniform(0.0, 1.2))
        await scene.kill()
    await eventually(
        lambda: list(received(scene).values()) == expected,
        why=lambda: f"seed {scene.seed}: {received(scene)}\n{scene.daemon.log[-3000:]}",
        within_seconds=_PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.soak)])
async def test_kills_while_pipelines_fail_and_recover(
    tmp_path: Path, seed: int, report_counts: ReportCounts, kills: int
) -> None:
    """In each half: every flow that failed fired once, every one that recovered resolved once."""
    async with scene(tmp_path, seed=seed) as crash:
        recipes = recipes_of(crash)
        for outcome, words in (
            (Outcome.FAILED, ["fired"]),
            (Outcome.COMPLETE, ["fired", "resolved"]),
        ):
            ending = asyncio.create_task(end_runs(crash, recipes, outcome))
            await kill_until(crash, [words] * len(recipes), kills=kills)
            await ending
        await pause(2)

        assert list(received(crash).values()) == [["fired", "resolved"]] * len(recipes)
        assert await crash.daemon.end() == 0
        assert "Traceback" not in crash.daemon.log
        report_counts("kills among alerts", seed=seed, alerts=len(recipes), kills=crash.kills)
