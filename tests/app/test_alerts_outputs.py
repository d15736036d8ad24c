"""One alert on its way to everybody: broker, Alertmanager, webhook and people, over a restart."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import msgspec
from standardwebhooks.webhooks import Webhook

from monitor.alerting.settings import AlertingSettings
from monitor.config import Configuration
from monitor.model.secrets import Secret
from monitor.outputs.notify.settings import NotifySettings
from monitor.outputs.webhook.settings import WebhookSettings
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.alert_messages import alert_events, alerts_by_key, retained_alerts
from tests.app.alertmanager_receiver import Notified
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.outputs.channels import channel_settings, gotify, titles
from tests.outputs.receiving import PostReceiver

KEY = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"
RULE = "run_failed"
# What each has received of an alert that fires, and of one that is over.
FIRED = {
    "broker": [["fired"]],
    "alertmanager": {RULE: ["firing"]},
    "webhook": 1,
    "chat": ["FAILED"],
}
OVER = {
    "broker": [["fired", "resolved"]],
    "alertmanager": {RULE: ["firing", "resolved"]},
    "webhook": 2,
    "chat": ["FAILED", "RESOLVED"],
}
RESEND_SECONDS = 2.5  # an Alertmanager keeps for four times as long what is not repeated


def end_a_run(workspace: Sandbox, outcome: Outcome) -> None:
    """Let the next run of the first recipe that can run end so."""
    world = workspace.world
    recipe = next(recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id))
    workspace.engine.order(Order(outcome=outcome, queue_seconds=1, work_seconds=1))
    workspace.engine.start_job_group(recipe, by=recipe.creator_id)


def alerting_settings(
    folder: Path,
    workspace: Sandbox,
    url: str,
    *,
    broker_url: str,
    notified: Notified,
    hook: str,
    chat: PostReceiver,
) -> Configuration:
    """Return settings with the default rules and every output, and a short memory of ends."""
    settings = fixture.configuration(
        folder, fixture.workspace_configuration(workspace, url), broker_url=broker_url
    )
    mqtt = msgspec.structs.replace(settings.outputs["mqtt"], state_scan_seconds=1.0)
    return msgspec.structs.replace(
        settings,
        alerting=AlertingSettings(evaluation_interval_seconds=0.5, resolved_kept_seconds=2.0),
        outputs={
            "mqtt": mqtt,
            "alertmanager": notified.settings(resend_seconds=RESEND_SECONDS),
            "webhook": WebhookSettings(url=hook, secret=Secret(KEY)),
            "notify": NotifySettings(
                channels=(channel_settings(gotify(chat), stores_answers_at_once=True),)
            ),
        },
    )


def received_by_all(
    subscriber: Subscriber, notified: Notified, receiver: PostReceiver, chat: PostReceiver
) -> dict[str, object]:
    """Return the transitions that each output delivered, the webhook's by their number."""
    return {
        "broker": list(alerts_by_key(subscriber).values()),
        "alertmanager": notified.words(),
        "webhook": len(receiver.requests),
        "chat": [title.partition(":")[0] for title in titles(chat)],
    }


async def kept_until(notified: Notified) -> datetime:
    """Return until when the Alertmanager keeps its alert if that is not repeated."""
    (alert,) = await notified.active()
    return datetime.fromisoformat(alert["endsAt"])


async def is_well(face: Face, output: str, *, ok: bool) -> bool:
    """True when readiness shows the output so."""
    return (await face.readiness()).checks[output]["ok"] is ok


async def test_an_alert_reaches_everybody_once_over_a_restart(tmp_path: Path) -> None:
    """Fired and resolved, once each, everywhere; its retained state is cleared in the end."""
    workspace = fixture.sandbox()
    async with (
        PostReceiver() as receiver,
        PostReceiver() as chat,
        Notified(tmp_path) as notified,
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        settings = alerting_settings(
            tmp_path,
            workspace,
            url,
            broker_url=broker.url,
            notified=notified,
            hook=f"{receiver.url}/hook",
            chat=chat,
        )
        chat.text = "{}"
        received = partial(received_by_all, subscriber, notified, receiver, chat)

        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            end_a_run(workspace, Outcome.FAILED)
            await eventually(lambda: received() == FIRED, why=received)
            await eventually(
                lambda: list(retained_alerts(subscriber).values()) == ["firing"],
                why=lambda: f"retained: {retained_alerts(subscriber)}",
            )
        kept = await kept_until(notified)

        async def is_repeated() -> bool:
            return await kept_until(notified) > kept + timedelta(seconds=2 * RESEND_SECONDS)

        async with fixture.daemon(settings) as face:
            await eventually(is_repeated, why="it is not repeated")
            assert notified.words() == {RULE: ["firing"]}
            end_a_run(workspace, Outcome.COMPLETE)
            await eventually(lambda: received() == OVER, why=received)
            await eventually(
                lambda: retained_alerts(subscriber) == {},
                why=lambda: f"retained: {retained_alerts(subscriber)}",
            )
            assert received() == OVER
    told_by_broker = [event for _, event in alert_events(subscriber)]
    told_by_webhook = [Webhook(KEY).verify(item.body, item.headers) for item in receiver.requests]
    assert told_by_webhook == told_by_broker
    assert titles(chat)[0].endswith(told_by_broker[0]["data"]["facts"]["error"])
    run_url = told_by_broker[0]["data"]["facts"]["url"]
    assert notified.addresses() == {run_url}
    assert run_url.startswith(url)


async def test_a_receiver_that_is_away_is_named_and_reported_again_on_request(
    tmp_path: Path,
) -> None:
    """Readiness names the failing output; a replay sends the same ids once it is back."""
    workspace = fixture.sandbox()
    async with (
        PostReceiver() as receiver,
        PostReceiver() as chat,
        Notified(tmp_path) as notified,
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
    ):
        hook = f"{receiver.url}/hook"
        settings = alerting_settings(
            tmp_path,
            workspace,
            url,
            broker_url=broker.url,
            notified=notified,
            hook=hook,
            chat=chat,
        )
        chat.text = "{}"
        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            receiver.status_for = chat.status_for = lambda _: 503
            end_a_run(workspace, Outcome.FAILED)

            for output in ("webhook", "notify:team"):
                await eventually(partial(is_well, face, output, ok=False), why="not reported")
            receiver.status_for = chat.status_for = None
            await eventually(lambda: len(titles(chat)) == 1, why="it was not sent later")
            await eventually(lambda: len(receiver.accepted) == 1, why="it was not published later")
            await eventually(lambda: is_well(face, "webhook", ok=True), why="still not well")
            replayed = await face.post(
                "/api/v1/replay", output="webhook", since="2026-01-01T00:00:00Z"
            )
            assert replayed["sent"] == 1
            first, again = receiver.accepted
            assert first.body == again.body
            assert first.headers["webhook-id"] == again.headers["webhook-id"]
