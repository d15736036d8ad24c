"""Alerts as a subscriber receives them from a broker: each fires once and resolves once."""

from __future__ import annotations

from pathlib import Path

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.catalogue.operations import Edition
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture, test_alerts_about_schedules, test_alerts_deadlines
from tests.app.alert_messages import alerts_by_key
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, ends_in, keeping_broker
from tests.app.run_scenarios import RUN_SCENARIOS
from tests.app.workspace_scenarios import WORKSPACE_SCENARIOS
from tests.clocks import FastClock


def end_a_run(workspace: Sandbox, outcome: Outcome) -> None:
    """Let the next run of the first recipe that can run end so."""
    world = workspace.world
    recipe = next(recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id))
    workspace.engine.order(Order(outcome=outcome, queue_seconds=1, work_seconds=1))
    workspace.engine.start_job_group(recipe, by=recipe.creator_id)


def words(subscriber: Subscriber) -> list[list[str]]:
    return list(alerts_by_key(subscriber).values())


async def until_received(workspace: Sandbox, subscriber: Subscriber, received: list[str]) -> None:
    """Return when every run that ended was reported, and of alerts this."""
    await eventually(lambda: not workspace.ledger.active(), why="the run does not end")
    ended = ends_in(workspace.ledger, fixture.kinds_of(Edition.RL))
    await eventually(lambda: subscriber.received().ends() == ended, why="the run was not published")
    await eventually(lambda: words(subscriber) == [received], why=lambda: words(subscriber))


def test_every_rule_has_its_scenario() -> None:
    """No kind of rule is left out of those that a real broker and Alertmanager receive."""
    schedules = test_alerts_about_schedules
    shown = [
        *(scenario.rule for scenario in RUN_SCENARIOS),
        *(scenario.rule for scenario in WORKSPACE_SCENARIOS),
        schedules.MISSED,
        schedules.DISABLED,
        schedules.STALE,
        test_alerts_deadlines.MISSED,
        test_alerts_deadlines.AT_RISK,
    ]

    assert sorted(shown) == sorted(RuleKind)


async def test_a_failure_is_reported_once_over_restarts(tmp_path: Path) -> None:
    """With no rule configured: a failure fires, the daemon starts again, a success resolves it."""
    clock = FastClock()
    workspace = fixture.sandbox(clock=clock)
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        settings = fixture.configuration(
            tmp_path, fixture.workspace_configuration(workspace, url), broker_url=broker.url
        )
        for outcome, received in (
            (Outcome.FAILED, ["fired"]),
            (Outcome.FAILED, ["fired"]),
            (Outcome.COMPLETE, ["fired", "resolved"]),
        ):
            async with fixture.daemon(settings, clock=clock) as face:
                await eventually(lambda: face.is_following("acme"), why="not followed")
                end_a_run(workspace, outcome)
                await until_received(workspace, subscriber, received)
        assert words(subscriber) == [["fired", "resolved"]]
