"""Every rule about runs begins and ends once, at a real broker and a real Alertmanager."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import msgspec

from monitor.alerting.settings import AlertingSettings
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import Recipe
from tests.app import fixture
from tests.app.alert_messages import alerts_by_key
from tests.app.alertmanager_receiver import Notified
from tests.app.eventually import eventually, pause
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.app.run_scenarios import RUN_SCENARIOS

A_WHILE_SECONDS = 1.5  # for what must not come


def one_recipe_of_each_flow(workspace: Sandbox) -> list[Recipe]:
    """Return recipes that can run, no two of one flow."""
    world = workspace.world
    recipes_by_flow = {
        recipe.flow_id: recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id)
    }
    return list(recipes_by_flow.values())


def watching(
    folder: Path,
    workspace: WorkspaceConfiguration,
    recipes: list[Recipe],
    *,
    broker_url: str,
    notified: Notified,
) -> Configuration:
    """Return settings with the scenarios' rules only, under which job records are read often."""
    poll = msgspec.structs.replace(workspace.poll, progress_seconds=1.0)
    workspace = msgspec.structs.replace(workspace, poll=poll)
    rules = tuple(
        scenario.settings(recipe) for scenario, recipe in zip(RUN_SCENARIOS, recipes, strict=True)
    )
    return msgspec.structs.replace(
        fixture.configuration(
            folder, workspace, broker_url=broker_url, alertmanager=notified.settings()
        ),
        alerting=AlertingSettings(
            rules=rules, with_defaults=False, evaluation_interval_seconds=0.5
        ),
    )


def words(subscriber: Subscriber) -> dict[str, list[str]]:
    """Return what was reported of each rule, in order, whatever the alert's key."""
    received: defaultdict[str, list[str]] = defaultdict(list)
    for (rule, _, _), transitions in alerts_by_key(subscriber).items():
        received[rule] += transitions
    return dict(received)


async def test_every_rule_about_runs_fires_and_resolves_once(tmp_path: Path) -> None:
    """Failed, failing, canceled, late, silent, waiting: each fires once and resolves once."""
    workspace = fixture.sandbox(cancel_ratio=0.0)
    recipes = one_recipe_of_each_flow(workspace)[: len(RUN_SCENARIOS)]
    names = {scenario.rule.value for scenario in RUN_SCENARIOS}
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        Notified(tmp_path) as notified,
        fixture.daemon(
            watching(
                tmp_path,
                fixture.workspace_configuration(workspace, url),
                recipes,
                broker_url=broker.url,
                notified=notified,
            )
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        for scenario, recipe in zip(RUN_SCENARIOS, recipes, strict=True):
            scenario.begin(workspace, recipe)
        await eventually(
            lambda: set(words(subscriber)) == names, why=lambda: f"fired: {words(subscriber)}"
        )
        await eventually(lambda: notified.words().keys() == names, why=notified.words)
        for scenario, recipe in zip(RUN_SCENARIOS, recipes, strict=True):
            scenario.finish(workspace, recipe)
        expected = {name: ["fired", "resolved"] for name in names}
        await eventually(
            lambda: words(subscriber) == expected, why=lambda: f"received: {words(subscriber)}"
        )
        mailed = {name: ["firing", "resolved"] for name in names}
        await eventually(lambda: notified.words() == mailed, why=notified.words)
        await pause(A_WHILE_SECONDS)
        assert words(subscriber) == expected
        assert notified.words() == mailed
