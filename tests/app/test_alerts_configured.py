"""Rules and silences of a configuration file work in a whole daemon."""

from __future__ import annotations

import glob
import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from monitor.alerting.settings import AlertingSettings
from monitor.config import SecretSource, parse_configuration
from monitor.model.secrets import Secret
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import Recipe
from tests.app import fixture
from tests.app.alert_messages import alert_events, alerts_by_key
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.clocks import FastClock

RULES = """
[[workspaces]]
name = "acme"
url = "http://127.0.0.1:9"
token_file = "token"

[alerting]
evaluation_interval_seconds = 0.5

[[alerts]]
rule = "run_failed"
enabled = false

[[alerts]]
name = "named_failed"
rule = "run_failed"
severity = "warning"
labels = {{ team = "sales" }}
annotations = {{ summary = "{{pipeline}}: {{error}}" }}
[alerts.match]
workspace = "ac*"
pipeline = {named}

[[alerts]]
name = "quiet_failed"
rule = "run_failed"
[alerts.match]
pipeline = "{quiet}"

[[silences]]
matchers = ["alertname=quiet*"]
comment = "It is known."
ends_at = 2100-01-01T00:00:00Z
"""


class TokenPlaces:
    """Returns the same token for every name."""

    def read_secret(self, source: SecretSource) -> Secret:
        return Secret(f"from the {source.form}")

    def find_file(self, path: str) -> str:
        return path


def written(**values: str) -> AlertingSettings:
    return parse_configuration(
        tomllib.loads(RULES.format(**values)), {}, locations=TokenPlaces()
    ).alerting


def fail(workspace: Sandbox, recipe: Recipe) -> None:
    order = Order(flow_id=recipe.flow_id, outcome=Outcome.FAILED, queue_seconds=1, work_seconds=1)
    workspace.engine.order(order)
    workspace.engine.start_job_group(recipe, by=recipe.creator_id)


def words(subscriber: Subscriber) -> dict[str, list[str]]:
    return {rule: transitions for (rule, _, _), transitions in alerts_by_key(subscriber).items()}


def received(subscriber: Subscriber, rule: str) -> dict[str, Any]:
    """Return what the first event of a rule holds."""
    event = next(event for alert_key, event in alert_events(subscriber) if alert_key[0] == rule)
    data: dict[str, Any] = event["data"]
    return data


async def test_rules_of_a_file_replace_the_defaults(tmp_path: Path) -> None:
    """One is reported with its own words and labels, one is silenced, and the default is gone."""
    clock = FastClock()
    workspace = fixture.sandbox(cancel_ratio=0.0, clock=clock)
    world = workspace.world
    recipes = {
        recipe.flow_id: recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id)
    }
    other, quiet, named = list(recipes.values())[:3]
    name = next(flow.name for flow in world.flows.live() if flow.id == named.flow_id)
    alerting = written(named=json.dumps(glob.escape(name)), quiet=str(quiet.flow_id))
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        settings = fixture.configuration(
            tmp_path, fixture.workspace_configuration(workspace, url), broker_url=broker.url
        )
        settings = msgspec.structs.replace(settings, alerting=alerting)
        async with fixture.daemon(settings, clock=clock) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            for recipe in (other, quiet, named):
                fail(workspace, recipe)
            expected = {"quiet_failed": ["silenced"], "named_failed": ["fired"]}
            await eventually(
                lambda: words(subscriber) == expected, why=lambda: f"received: {words(subscriber)}"
            )
    alert = received(subscriber, "named_failed")
    assert alert["labels"]["team"] == "sales"
    assert alert["labels"]["severity"] == "warning"
    assert alert["annotations"]["summary"].startswith(f"{name}: ")
    assert alert["annotations"]["description"].startswith("Run ")
