"""A run that does not end, and what each place of a daemon shows of it."""

from __future__ import annotations

import json
from typing import Any

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.runs import JobGroup
from tests.app.daemon_http import Face
from tests.app.mqtt_subscriber import Subscriber

_ACTIVE = "dataprep_runs_active"
_OLDEST = "dataprep_oldest_active_run_timestamp_seconds"


def start_run(
    workspace: Sandbox,
    outcome: Outcome = Outcome.COMPLETE,
    *,
    work_seconds: float = 1_000_000,
) -> JobGroup:
    """Let a recipe run, by default without an end."""
    recipe = next(
        recipe for recipe in workspace.world.recipes.live() if workspace.world.outputs_of(recipe.id)
    )
    order = Order(recipe_id=recipe.id, outcome=outcome, queue_seconds=0, work_seconds=work_seconds)
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
    samples = await face.samples(_ACTIVE, _OLDEST)
    active = [
        sample.value
        for sample in samples
        if (sample.name, sample.labels.get("kind")) == (_ACTIVE, "job_group")
    ]
    return {
        "running": row["status"],
        "run": (await face.json(f"/api/v1/runs/acme/job_group/{run.id}"))["run"]["status"],
        "counted": (status["running"], status["unconfirmed"]),
        "page": "perhaps running" in page,
        "mqtt": (retained[-1]["state"], retained[-1]["active_count"]) if retained else None,
        "gauges": (bool(active), sum(active)),
        "oldest": any(sample.name == _OLDEST for sample in samples),
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
