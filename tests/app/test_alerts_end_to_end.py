"""Alerts as somebody hears them at a broker: each episode once, and its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from monitor.sandbox.engine.engine import Order, Outcome
from tests.app import stage
from tests.app.hearing import Subscriber, keeping_broker
from tests.app.waiting import eventually


def alerts(subscriber: Subscriber) -> dict[str, dict[str, Any]]:
    """Return the alert events that were heard, by id, in the order of their first arrival."""
    heard: dict[str, dict[str, Any]] = {}
    for one in list(subscriber.messages):
        if "/alert/" in one.topic and one.topic.endswith("/event"):
            event = json.loads(one.payload)
            heard.setdefault(event["id"], event)
    return heard


async def test_a_failure_is_told_once_and_its_end_too(tmp_path: Path) -> None:
    """With no rule configured: a run fails, one alert; the next one succeeds, it is over."""
    workspace = stage.sandbox()
    async with (
        stage.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        settings = stage.configuration(
            tmp_path, stage.workspace_configuration(workspace, url), broker_url=broker.url
        )
        async with stage.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            recipe = next(
                one for one in workspace.world.recipes.live() if workspace.world.outputs_of(one.id)
            )
            for outcome, word in ((Outcome.FAILED, "fired"), (Outcome.COMPLETE, "resolved")):
                workspace.engine.order(Order(outcome=outcome, queue_seconds=1, work_seconds=1))
                workspace.engine.start_job_group(recipe, by=recipe.creator_id)
                await eventually(
                    lambda word=word: any(  # type: ignore[misc]  # bound at once
                        one["type"] == f"dataprep.alert.{word}.v1"
                        for one in alerts(subscriber).values()
                    ),
                    why=f"{word} was not heard",
                )
        assert [one["type"].split(".")[2] for one in alerts(subscriber).values()] == [
            "fired",
            "resolved",
        ]
