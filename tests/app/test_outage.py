"""A workspace that answers no more: what runs there is unknown at once, wherever it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from monitor.sandbox.world.records.runs import JobGroup
from tests.app import stage
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.clocks import FastClock

# Polls follow each other within a second here. By the limits of age it took five minutes.
_AT_ONCE_SECONDS = 30.0


def start_run(workspace: Sandbox) -> JobGroup:
    """Let a recipe run that does not end."""
    recipe = next(
        recipe for recipe in workspace.world.recipes.live() if workspace.world.outputs_of(recipe.id)
    )
    order = Order(
        recipe_id=recipe.id, outcome=Outcome.COMPLETE, queue_seconds=0, work_seconds=1_000_000
    )
    workspace.engine.order(order)
    return workspace.engine.start_job_group(recipe, by=recipe.creator_id)


async def shown_of(face: Face, subscriber: Subscriber, run: JobGroup) -> dict[str, Any]:
    """Return what each place shows of the only run."""
    (row,) = (await face.json("/api/v1/running"))["data"]
    status = await face.json("/api/v1/status")
    retained = [
        json.loads(message.payload)
        for message in list(subscriber.messages)
        if message.topic.startswith("dataprep/v1/acme/job_group/")
        and message.topic.endswith("/state")
    ]
    page = await face.text("/")
    return {
        "running": row["status"],
        "run": (await face.json(f"/api/v1/runs/acme/job_group/{run.id}"))["run"]["status"],
        "counted": (status["running"], status["unconfirmed"]),
        "page": "perhaps running" in page,
        "mqtt": (retained[-1]["state"], retained[-1]["active_count"]) if retained else None,
        "gauges": (
            await face.metric("dataprep_runs_active", kind="job_group") is not None,
            await face.total("dataprep_runs_active", kind="job_group"),
        ),
        "oldest": await face.metric("dataprep_oldest_active_run_timestamp_seconds") is not None,
    }


KNOWN = {
    "running": "running",
    "run": "running",
    "counted": (1, 0),
    "page": False,
    "mqtt": ("known", 1),
    "gauges": (True, 1),
    "oldest": True,
}
UNKNOWN = {
    "running": "unknown",
    "run": "unknown",
    "counted": (0, 1),
    "page": True,
    "mqtt": ("unknown", None),
    "gauges": (False, 0),
    "oldest": False,
}


@pytest.mark.parametrize("fault", ["status_503", "dropped"])
async def test_what_runs_is_unknown_from_the_first_failed_read_on(
    tmp_path: Path, fault: str
) -> None:
    """Page, API, retained state and gauges say so at once, and know it again at the next answer."""
    clock = FastClock()
    workspace = Sandbox(SandboxSettings(traffic=None, schedules_fire=False), clock)
    async with (
        stage.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        stage.daemon(
            stage.configuration(
                tmp_path, stage.workspace_configuration(workspace, url), broker_url=broker.url
            ),
            clock=clock,
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        run, shown = start_run(workspace), dict[str, Any]()

        async def shows(expected: dict[str, Any]) -> bool:
            if (await face.json("/api/v1/running"))["data"]:
                shown.update(await shown_of(face, subscriber, run))
            return shown == expected

        await eventually(lambda: shows(KNOWN), why=lambda: f"not known: {shown}")
        setattr(workspace.world.options, fault, 1.0)
        began = clock.monotonic()
        await eventually(lambda: shows(UNKNOWN), why=lambda: f"not unknown: {shown}")
        assert clock.monotonic() - began < _AT_ONCE_SECONDS
        setattr(workspace.world.options, fault, 0.0)
        await eventually(lambda: shows(KNOWN), why=lambda: f"not known again: {shown}")
