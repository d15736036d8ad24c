"""Dead letters of a daemon: shown, counted, alerted about, resent and dropped."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec

from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.settings import AlertingSettings
from monitor.config import Configuration
from monitor.model.secrets import Secret
from monitor.outputs.webhook.settings import WebhookSettings
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.outputs.receiving import PostReceiver

KEY = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"
METRIC = "dataprep_monitor_dead_letters"


def fail_a_run(workspace: Sandbox) -> None:
    world = workspace.world
    recipe = next(recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id))
    workspace.engine.order(Order(outcome=Outcome.FAILED, queue_seconds=1, work_seconds=1))
    workspace.engine.start_job_group(recipe, by=recipe.creator_id)


def settings_of(
    folder: Path, workspace: Sandbox, url: str, receiver: PostReceiver
) -> Configuration:
    """Return settings with one output, which takes the ends of runs, and a rule about it."""
    rule = RuleSettings(
        name="degraded", rule=RuleKind.MONITOR_DEGRADED, threshold=300.0, for_seconds=0.0
    )
    return msgspec.structs.replace(
        fixture.configuration(folder, fixture.workspace_configuration(workspace, url)),
        alerting=AlertingSettings(evaluation_interval_seconds=0.5, rules=(rule,)),
        outputs={
            "webhook": WebhookSettings(
                url=f"{receiver.url}/hook", secret=Secret(KEY), events=("run.failed",)
            )
        },
    )


async def output_of(face: Face) -> dict[str, Any]:
    outputs = (await face.json("/api/v1/monitor/outputs"))["data"]
    return next(output for output in outputs if output["name"] == "webhook")


async def fires(face: Face, *parts: str) -> bool:
    """Return whether alerts about just these parts of the daemon fire."""
    alerts = (await face.json("/api/v1/alerts?state=firing"))["data"]
    return [alert["labels"]["part"] for alert in alerts] == [*parts]


async def test_dead_letters_are_resent_once_their_reason_is_gone(tmp_path: Path) -> None:
    """Until then they stay, with the newest reason; then page, metric and alert have none."""
    workspace = fixture.sandbox()
    async with PostReceiver() as receiver, fixture.started(workspace) as url:
        settings = settings_of(tmp_path, workspace, url, receiver)
        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            receiver.status_for = lambda _: 413
            fail_a_run(workspace)
            await eventually(lambda: face.shows(METRIC, 1, output="webhook"), why="not refused")
            await eventually(lambda: fires(face, "dead_letters:webhook"), why="no alert")
            assert "dead-letters resend webhook --all" in await face.text("/monitor")

            receiver.status_for = lambda _: 400
            refused = await face.post("/api/v1/dead-letters/resend", output="webhook", all=True)
            assert (refused["sent"], refused["refused"], refused["left"]) == (0, 1, 1)
            [letter] = (await output_of(face))["newest_dead_letters"]
            assert "400" in letter["reason"]

            receiver.status_for = None
            sent = await face.post("/api/v1/dead-letters/resend", output="webhook", all=True)
            assert (sent["sent"], sent["left"]) == (1, 0)
            [accepted] = receiver.accepted
            assert accepted.headers["webhook-id"] == letter["event_id"]
            assert (await output_of(face))["dead_letters"] == 0
            assert await face.metric(METRIC, output="webhook") == 0
            await eventually(lambda: fires(face), why="the alert does not end")


async def test_dropped_dead_letters_are_gone(tmp_path: Path) -> None:
    """They are counted in the answer, and never sent."""
    workspace = fixture.sandbox()
    async with PostReceiver() as receiver, fixture.started(workspace) as url:
        settings = settings_of(tmp_path, workspace, url, receiver)
        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            receiver.status_for = lambda _: 413
            fail_a_run(workspace)
            await eventually(lambda: face.shows(METRIC, 1, output="webhook"), why="not refused")
            dropped = await face.post("/api/v1/dead-letters/drop", output="webhook", all=True)
            assert (dropped["dropped"], dropped["left"]) == (1, 0)
            assert await face.metric(METRIC, output="webhook") == 0
            assert receiver.accepted == []
