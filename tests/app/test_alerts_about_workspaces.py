"""Every rule about a workspace or the daemon begins and ends once, at broker and Alertmanager."""

from __future__ import annotations

import asyncio
import base64
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.config import Configuration
from monitor.model.secrets import Secret
from monitor.outputs.webhook.settings import WebhookSettings
from monitor.polling.settings import InventorySettings
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.alert_messages import alerts_by_key, retained_alerts
from tests.app.alertmanager_receiver import Notified
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.app.workspace_scenarios import (
    EVALUATION_INTERVAL_SECONDS,
    WORKSPACE_SCENARIOS,
    Fixture,
    WorkspaceScenario,
)
from tests.clocks import FastClock
from tests.outputs.receiving import PostReceiver
from tests.servers import free_port

TOGETHER = [
    workspace_scenario
    for workspace_scenario in WORKSPACE_SCENARIOS
    if not workspace_scenario.is_alone
]
ALONE = [
    workspace_scenario for workspace_scenario in WORKSPACE_SCENARIOS if workspace_scenario.is_alone
]
SIGNING_KEY = Secret(f"whsec_{base64.b64encode(bytes(range(32))).decode()}")


def watching(
    folder: Path,
    workspace: Sandbox,
    url: str,
    *,
    broker_url: str,
    webhook_url: str,
    **outputs: Struct,
) -> Configuration:
    """Return settings with the scenarios' rules only, under which everything is read often."""
    port = free_port()
    settings = fixture.workspace_configuration(
        workspace, url, callbacks_port=port, inventory=InventorySettings(interval_seconds=0.25)
    )
    assert settings.callbacks is not None
    callbacks = msgspec.structs.replace(settings.callbacks, miss_after_seconds=1.0)
    poll = msgspec.structs.replace(settings.poll, reconcile_seconds=1.0, names_seconds=1.0)
    return msgspec.structs.replace(
        fixture.configuration(
            folder,
            msgspec.structs.replace(settings, callbacks=callbacks, poll=poll),
            broker_url=broker_url,
            callbacks_port=port,
            webhook=WebhookSettings(
                url=webhook_url,
                secret=SIGNING_KEY,
                events=("run.*",),
                backoff_base_seconds=0.1,
                backoff_cap_seconds=0.5,
            ),
            **outputs,
        ),
        alerting=AlertingSettings(
            rules=tuple(scenario.settings() for scenario in WORKSPACE_SCENARIOS),
            with_defaults=False,
            evaluation_interval_seconds=EVALUATION_INTERVAL_SECONDS,
        ),
    )


def words(subscriber: Subscriber) -> dict[str, list[list[str]]]:
    """Return what was reported of each rule: one list for each alert."""
    received: defaultdict[str, list[list[str]]] = defaultdict(list)
    for (rule, _, _), transitions in alerts_by_key(subscriber).items():
        received[rule].append(transitions)
    return dict(received)


async def until_fired(subscriber: Subscriber, scenarios: Sequence[WorkspaceScenario]) -> None:
    expected = {scenario.rule.value for scenario in scenarios}
    await eventually(
        lambda: expected <= words(subscriber).keys(), why=lambda: f"fired: {words(subscriber)}"
    )


async def until_received(subscriber: Subscriber, scenarios: Sequence[WorkspaceScenario]) -> None:
    """Return when each of these scenarios was reported once, and its end once, and nothing else."""
    expected = {scenario.rule.value: [["fired", "resolved"]] for scenario in scenarios}
    await eventually(
        lambda: words(subscriber) == expected, why=lambda: f"received: {words(subscriber)}"
    )


async def test_every_rule_about_a_workspace_fires_and_resolves_once(tmp_path: Path) -> None:
    """Token, quality, callbacks, a lagging output, budget, outage: each fires and resolves once."""
    workspace = fixture.sandbox()
    world = workspace.world
    recipes = {
        recipe.flow_id: recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id)
    }
    profiled, other = list(recipes.values())[:2]
    async with (
        PostReceiver() as receiver,
        Notified(tmp_path) as notified,
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        fixture.daemon(
            watching(
                tmp_path,
                workspace,
                url,
                broker_url=broker.url,
                webhook_url=receiver.url,
                alertmanager=notified.settings(),
            )
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        at = Fixture(
            workspace=workspace, profiled=profiled, other=other, receiver=receiver, face=face
        )
        done: list[WorkspaceScenario] = []
        for scenarios in (TOGETHER, *([scenario] for scenario in ALONE)):
            await asyncio.gather(*(scenario.begin(at) for scenario in scenarios))
            await until_fired(subscriber, scenarios)
            for scenario in scenarios:
                await scenario.finish(at)
            done += scenarios
            await until_received(subscriber, done)
        await eventually(
            lambda: list(retained_alerts(subscriber).values()) == ["resolved"] * len(done),
            why=lambda: f"retained: {retained_alerts(subscriber)}",
        )
        await eventually(
            lambda: (
                notified.words()
                == {
                    workspace_scenario.rule.value: ["firing", "resolved"]
                    for workspace_scenario in done
                }
            ),
            why=lambda: f"notified: {notified.words()}",
        )
        assert len(done) == len(alerts_by_key(subscriber))


async def test_a_refused_token_is_reported_as_an_outage(tmp_path: Path) -> None:
    """The workspace answers every request, with a refusal: that is reported once, and once over."""
    clock = FastClock()
    workspace = fixture.sandbox(clock=clock)
    async with fixture.started(workspace) as url:
        rule = msgspec.structs.replace(
            default_rule(RuleKind.WORKSPACE_UNREACHABLE), for_seconds=1.0
        )
        settings = msgspec.structs.replace(
            fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url)),
            alerting=AlertingSettings(
                rules=(rule,), with_defaults=False, evaluation_interval_seconds=0.2
            ),
        )
        async with fixture.daemon(settings, clock=clock) as face:

            async def received() -> list[str]:
                rows = (await face.json("/api/v1/events?limit=1000"))["data"]
                return [event["type"] for event in rows if "alert" in event["type"].split(".")]

            async def has_received(*types: str) -> bool:
                return await received() == [f"dataprep.alert.{word}.v1" for word in types]

            await eventually(lambda: face.is_following("acme"), why="not followed")
            token = next(token for token in workspace.world.tokens.live())
            token.expires_at = clock.now()
            await eventually(lambda: has_received("fired"), why="the refusal is not published")
            await clock.sleep(3.0)
            assert await has_received("fired")
            token.expires_at = None
            await eventually(lambda: has_received("fired", "resolved"), why="nor that it is over")
