"""Who was notified, as page, API and explanations say: only whom an output has reached."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import msgspec

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
NO_OUTPUT = "no output is configured"


def end_a_run(workspace: Sandbox, outcome: Outcome) -> None:
    """Let the next run of the first recipe that can run end so."""
    world = workspace.world
    recipe = next(recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id))
    workspace.engine.order(Order(outcome=outcome, queue_seconds=1, work_seconds=1))
    workspace.engine.start_job_group(recipe, by=recipe.creator_id)


def settings_of(
    folder: Path, workspace: Sandbox, url: str, hook: WebhookSettings | None = None
) -> Configuration:
    return msgspec.structs.replace(
        fixture.configuration(folder, fixture.workspace_configuration(workspace, url)),
        alerting=AlertingSettings(evaluation_interval_seconds=0.5),
        outputs={} if hook is None else {"webhook": hook},
    )


def webhook(receiver: PostReceiver, *events: str) -> WebhookSettings:
    return WebhookSettings(
        url=f"{receiver.url}/hook",
        secret=Secret(KEY),
        events=events or ("alert.*",),
        backoff_base_seconds=0.1,
        backoff_cap_seconds=0.2,
    )


async def fired(face: Face) -> dict[str, Any]:
    """Return the alert once it fires."""
    alerts: list[dict[str, Any]] = []

    async def fires() -> bool:
        alerts[:] = (await face.json("/api/v1/alerts?state=firing"))["data"]
        return bool(alerts)

    await eventually(fires, why="no alert fires")
    return alerts[0]


async def test_without_an_output_no_notification_is_sent_and_all_say_so(tmp_path: Path) -> None:
    """Alert, page, explanation, silences and status line name the cause and the way out."""
    workspace = fixture.sandbox()
    async with fixture.started(workspace) as url:
        settings = settings_of(tmp_path, workspace, url)
        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            end_a_run(workspace, Outcome.FAILED)
            alert = await fired(face)
            assert alert["notified_at"] is None
            assert NO_OUTPUT in alert["unnotified"]
            assert "[mqtt]" in alert["unnotified"]
            (group,) = (await face.json("/api/v1/attention"))["data"]
            assert group["alerts"][0]["notified_at"] is None
            assert NO_OUTPUT in group["alerts"][0]["unnotified"]

            key = alert["fingerprint"]
            explained = await face.json(f"/api/v1/alerts/{key}/explanation")
            assert explained["reason"] == "no output"
            assert f"no notifications are sent: {NO_OUTPUT}" in explained["answer"]
            assert [each.get("notified_at") for each in explained["alerts"]] == [None]

            page = await face.text(f"/alerts/{key}")
            assert "last notified</dt><dd>never" in page
            assert 'class="answer held"' in page
            silences = await face.text("/silences")
            assert "every alert that fires notifies people" not in silences
            assert NO_OUTPUT in silences
            status = await face.json("/api/v1/status")
            assert f"no notifications are sent: {NO_OUTPUT}" in status["sentence"]
            assert NO_OUTPUT in await face.text("/")


async def test_an_alert_is_notified_once_an_output_has_taken_it(tmp_path: Path) -> None:
    """While the receiver refuses it is not; then it says through which output."""
    workspace = fixture.sandbox()
    async with PostReceiver() as receiver, fixture.started(workspace) as url:
        settings = settings_of(tmp_path, workspace, url, webhook(receiver))
        receiver.status_for = lambda _: 503
        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            end_a_run(workspace, Outcome.FAILED)
            alert = await fired(face)
            assert (alert["notified_at"], alert["notified_through"]) == (None, [])
            # Whether events stand before it depends on how far the position has been stored.
            assert re.search("alert.fired (waits in|is on its way to) webhook", alert["unnotified"])
            status = await face.json("/api/v1/status")
            assert "no notifications are sent" not in status["sentence"]

            receiver.status_for = None

            async def is_notified() -> bool:
                found = await fired(face)
                return found["notified_at"] is not None

            await eventually(is_notified, why="the alert was taken, and says nothing of it")
            alert = await fired(face)
            assert (alert["notified_through"], alert["unnotified"]) == (["webhook"], None)


async def test_an_output_that_came_later_has_sent_no_notification(tmp_path: Path) -> None:
    """An alert that fired before its first output is not said to have gone through that."""
    workspace = fixture.sandbox()
    async with PostReceiver() as receiver, fixture.started(workspace) as url:
        async with fixture.daemon(settings_of(tmp_path, workspace, url)) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            end_a_run(workspace, Outcome.FAILED)
            await fired(face)
        settings = settings_of(tmp_path, workspace, url, webhook(receiver))
        for _ in range(2):  # also after a restart
            async with fixture.daemon(settings) as face:
                alert = await fired(face)
                assert alert["notified_at"] is None
                assert "webhook was added after alert.fired" in alert["unnotified"]
                explained = await face.json(f"/api/v1/alerts/{alert['fingerprint']}/explanation")
                assert explained["reason"] == "no output"


async def test_an_output_that_takes_no_alerts_sends_no_notifications(tmp_path: Path) -> None:
    """A webhook of other events is not taken for one that notifies people."""
    workspace = fixture.sandbox()
    async with PostReceiver() as receiver, fixture.started(workspace) as url:
        hook = webhook(receiver, "run.*", "alert.resolved")
        async with fixture.daemon(settings_of(tmp_path, workspace, url, hook)) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            status = await face.json("/api/v1/status")
            why = "no notifications are sent: webhook takes no alert that fires"
            assert why in status["sentence"]
            end_a_run(workspace, Outcome.FAILED)
            alert = await fired(face)
            assert alert["notified_at"] is None
            assert "webhook takes no alert that fires" in alert["unnotified"]
