"""Rules about deadlines begin and end once, at a real broker and Alertmanager."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings
from tests.app import fixture
from tests.app.alertmanager_receiver import Notified
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.app.test_alerts_about_schedules import flow_that_succeeds, words
from tests.clocks import FastClock

MISSED, AT_RISK = RuleKind.DEADLINE_MISSED, RuleKind.DEADLINE_AT_RISK
_BEFORE = timedelta(hours=1)  # so long before the machine's time: nothing ends in its future
_USUAL_SECONDS = 3_600.0


def rule(kind: RuleKind, flow_id: int, deadline: str, **more: Any) -> RuleSettings:
    """Return a rule that holds one flow to a time of day."""
    return msgspec.structs.replace(
        default_rule(kind), deadline=deadline, match=Match(pipeline=(str(flow_id),)), **more
    )


async def test_a_deadline_is_at_risk_then_missed_then_over(tmp_path: Path) -> None:
    """It is at risk while an hour no longer fits, missed at its time, and over at a success."""
    start = FastClock().now() - _BEFORE
    clock = FastClock(speed=30.0, start=start)
    workspace = Sandbox(
        SandboxSettings(work=WorkSettings(speed=120, failure_factor=0.0), traffic=None), clock
    )
    flow_id = flow_that_succeeds(workspace)
    # It counts from after the first evaluation: what succeeded before is not known.
    counts_from, deadline = (f"{start + timedelta(minutes=minutes):%H:%M}" for minutes in (2, 3))
    rules = (
        rule(MISSED, flow_id, deadline, counts_from=counts_from),
        rule(AT_RISK, flow_id, deadline, counts_from=counts_from, threshold=_USUAL_SECONDS),
    )
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        Notified(tmp_path) as notified,
    ):
        settings = fixture.configuration(
            tmp_path,
            fixture.workspace_configuration(workspace, url),
            broker_url=broker.url,
            alertmanager=notified.settings(resend_seconds=_BEFORE.total_seconds()),
        )
        settings = msgspec.structs.replace(
            settings,
            alerting=AlertingSettings(
                rules=rules, with_defaults=False, evaluation_interval_seconds=0.5
            ),
        )

        def is_received(expected: Mapping[RuleKind, list[str]]) -> bool:
            return words(subscriber) == {str(kind): said for kind, said in expected.items()}

        def shown() -> str:
            return f"received: {words(subscriber)}, mailed: {notified.words()}"

        async with fixture.daemon(settings, clock=clock):
            await eventually(lambda: is_received({AT_RISK: ["fired"]}), why=shown)
            missed = {AT_RISK: ["fired", "resolved"], MISSED: ["fired"]}
            await eventually(lambda: is_received(missed), why=shown)
            (recipe,) = workspace.world.recipes_of(flow_id)
            workspace.engine.start_job_group(recipe, by=recipe.creator_id)
            over = {kind: ["fired", "resolved"] for kind in (AT_RISK, MISSED)}
            await eventually(lambda: is_received(over), why=shown)
            mailed = {str(kind): ["firing", "resolved"] for kind in (AT_RISK, MISSED)}
            await eventually(lambda: notified.words() == mailed, why=shown)
