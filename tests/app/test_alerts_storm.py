"""Five hundred pipelines fail at once, and then the workspace is gone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.config import Configuration
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import Flow, OutputObject, Recipe
from tests.app import fixture
from tests.app.alert_messages import alerts_by_key, retained_alerts
from tests.app.alertmanager_receiver import Notified
from tests.app.eventually import eventually, pause
from tests.app.mqtt_subscriber import Subscriber, keeping_broker

PIPELINES = 500
FAILED, GONE = RuleKind.RUN_FAILED.value, RuleKind.WORKSPACE_UNREACHABLE.value
STORM = Counter({(FAILED, "fired"): PIPELINES})
A_WHILE_SECONDS = 1.5  # for what must not come


def failing_recipes(workspace: Sandbox) -> list[Recipe]:
    """Make flows that always fail, each with a recipe that can run."""
    world = workspace.world
    (me, *_) = (flow.creator_id for flow in world.flows.live())
    recipes: list[Recipe] = []
    for number in range(PIPELINES):
        flow = world.create(Flow, by=me, name=f"storm {number}", failure_ratio=1.0)
        recipe = world.create(Recipe, by=me, flow_id=flow.id, name=f"storm {number}")
        world.create(OutputObject, by=me, recipe_id=recipe.id)
        recipes.append(recipe)
    return recipes


def watching(
    folder: Path, workspace: Sandbox, url: str, broker_url: str, notified: Notified
) -> Configuration:
    """Return settings with the default rules; one of them waits less than it would."""
    rules = [default_rule(kind) for kind in RuleKind]
    quick = [
        msgspec.structs.replace(rule, for_seconds=1.0)
        if rule.rule is RuleKind.WORKSPACE_UNREACHABLE
        else rule
        for rule in rules
    ]
    return msgspec.structs.replace(
        fixture.configuration(
            folder,
            fixture.workspace_configuration(workspace, url),
            broker_url=broker_url,
            alertmanager=notified.settings(resend_seconds=30),
        ),
        alerting=AlertingSettings(rules=tuple(quick), evaluation_interval_seconds=0.5),
    )


def counts(subscriber: Subscriber) -> Counter[tuple[str, str]]:
    """Return how many alerts of each rule were reported with each transition."""
    return Counter(
        (rule, word) for (rule, _, _), words in alerts_by_key(subscriber).items() for word in words
    )


async def test_each_of_500_failures_is_reported_once_and_the_outage_adds_one(
    tmp_path: Path,
) -> None:
    """500 fired, one each; one mail, because the route groups them; then the outage alone."""
    workspace = fixture.sandbox()
    recipes = failing_recipes(workspace)
    async with (
        Notified(tmp_path, group_by="alertname", group_wait="6s") as notified,
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        fixture.daemon(watching(tmp_path, workspace, url, broker.url, notified)) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        for recipe in recipes:
            workspace.engine.start_job_group(recipe, by=recipe.creator_id)
        await eventually(
            lambda: counts(subscriber) == STORM, why=lambda: f"received: {counts(subscriber)}"
        )
        assert len(alerts_by_key(subscriber)) == PIPELINES
        workspace.world.options.dropped = 1.0
        outage = STORM + Counter({(GONE, "fired"): 1})
        await eventually(
            lambda: counts(subscriber) == outage, why=lambda: f"received: {counts(subscriber)}"
        )
        await eventually(lambda: bool(notified.mails), why="Alertmanager sent no notification")
        await pause(A_WHILE_SECONDS)
        assert counts(subscriber) == outage
        assert set(retained_alerts(subscriber).values()) == {"firing"}
        # Where the storm outlasts the wait of the group, its mail comes once more, whole.
        grouped = [len(mail) for mail in notified.mails if mail[0]["alertname"] == FAILED]
        assert max(grouped) == PIPELINES
        assert len(grouped) < PIPELINES / 20
