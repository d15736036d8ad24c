"""The first start on a workspace with broken pipelines, observed at a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from monitor.alerting.settings import AlertingSettings
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import Recipe
from tests.app import fixture
from tests.app.alert_messages import alert_events, alerts_by_key
from tests.app.eventually import eventually, pause
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.app.test_alerts_about_runs import one_recipe_of_each_flow

PIPELINES = 8
WITHIN_SECONDS = 3.0  # of the initial evaluation
A_WHILE_SECONDS = 1.5  # for what must not come
A_SECOND = 1.1  # as ends are stamped


def end_each(workspace: Sandbox, recipes: list[Recipe], outcome: Outcome) -> None:
    """Let one recipe run by itself, and the flows of all others as flow runs."""
    for number, recipe in enumerate(recipes):
        flow = workspace.world.flows.get(recipe.flow_id)
        workspace.engine.order(
            Order(flow_id=recipe.flow_id, outcome=outcome, queue_seconds=1, work_seconds=1)
        )
        if number == 0 or flow is None:
            workspace.engine.start_job_group(recipe, by=recipe.creator_id)
        else:
            workspace.engine.start_flow_run(flow, by=recipe.creator_id, recipe_ids=(recipe.id,))


def fired(subscriber: Subscriber) -> list[dict[str, Any]]:
    """Return the facts that the first event of each alert carries."""
    received = [(alert_key, event["data"]) for alert_key, event in alert_events(subscriber)]
    return [alert for (rule, _, _), alert in received if rule == "run_failed"]


async def test_failures_before_the_first_start_are_reported_once(tmp_path: Path) -> None:
    """Eight of eight pipelines are broken: one alert each, marked, over at the next success."""
    workspace = fixture.sandbox(cancel_ratio=0.0)
    recipes = one_recipe_of_each_flow(workspace)[:PIPELINES]
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        end_each(workspace, recipes, Outcome.FAILED)
        await eventually(lambda: not workspace.ledger.active(), why="the runs do not end")
        await pause(A_SECOND)
        settings = msgspec.structs.replace(
            fixture.configuration(
                tmp_path, fixture.workspace_configuration(workspace, url), broker_url=broker.url
            ),
            alerting=AlertingSettings(evaluation_interval_seconds=0.5),
        )
        async with fixture.daemon(settings) as face:
            await eventually(
                lambda: len(fired(subscriber)) == len(recipes),
                why=lambda: f"received: {alerts_by_key(subscriber)}",
                within_seconds=WITHIN_SECONDS,
            )
            assert all(
                alert["preexisting"] and not alert["evidence"] for alert in fired(subscriber)
            )
            page = await face.text("/")
            assert page.count("or earlier") == len(recipes)
            alone = next(
                alert for alert in fired(subscriber) if alert["labels"]["kind"] == "job_group"
            )
            explained = await face.text(f"/api/v1/explain?alert={alone['fingerprint']}")
            assert "ended before the monitor followed it" in explained
            place = f"{alone['labels']['kind']}/{alone['facts']['run']}"
            why = await face.json(f"/api/v1/explain?run=acme/{place}")
            assert "not notified" not in why["answer"]
        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            await pause(A_WHILE_SECONDS)
            assert list(alerts_by_key(subscriber).values()) == [["fired"]] * len(recipes)
            end_each(workspace, recipes, Outcome.COMPLETE)
            await eventually(
                lambda: (
                    list(alerts_by_key(subscriber).values())
                    == [["fired", "resolved"]] * len(recipes)
                ),
                why=lambda: f"received: {alerts_by_key(subscriber)}",
            )
