"""Rules about schedules and freshness begin and end once, at a real broker and Alertmanager."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import msgspec

from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.clock import SystemClock
from monitor.model.triggers import CronTrigger, DailyTrigger, ScheduleTrigger
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings
from monitor.sandbox.world.records.objects import Flow, OutputObject, Recipe, Schedule, ScheduleTask
from tests.app import fixture
from tests.app.alert_messages import alerts_by_key
from tests.app.alertmanager_receiver import Notified
from tests.app.daemon_http import Face
from tests.app.eventually import eventually, pause
from tests.app.mqtt_subscriber import Subscriber, keeping_broker

A_WHILE_SECONDS = 1.5  # for what must not come
EVERY_TWO_SECONDS = CronTrigger(expression="0/2 * * * * ?")
OWNER = 11  # of the token: the workspace shows no other person's schedules
MISSED, DISABLED, STALE = (
    RuleKind.SCHEDULE_MISSED,
    RuleKind.SCHEDULE_DISABLED,
    RuleKind.NOT_FRESH,
)


def schedule(workspace: Sandbox, flow_id: int, trigger: ScheduleTrigger) -> Schedule:
    """Make an enabled schedule of a flow."""
    made = workspace.world.create(
        Schedule,
        by=OWNER,
        name=f"of {flow_id}",
        triggers=(trigger,),
        tasks=(ScheduleTask(kind="flow", target_id=flow_id),),
    )
    workspace.engine.schedules_changed()
    return made


def rule(kind: RuleKind, flow_id: int, threshold: float | None = None) -> RuleSettings:
    """Return a rule that watches one flow."""
    match = Match(pipeline=(str(flow_id),))
    return msgspec.structs.replace(default_rule(kind), threshold=threshold, match=match)


def flow_that_succeeds(workspace: Sandbox) -> int:
    """Make a flow with one output, whose runs succeed at once, and return its id."""
    flow = workspace.world.create(Flow, by=OWNER, name="Orders")
    recipe = workspace.world.create(
        Recipe, by=OWNER, flow_id=flow.id, name="orders", upstream_ids=()
    )
    workspace.world.create(OutputObject, by=OWNER, recipe_id=recipe.id)
    workspace.engine.order(
        Order(
            count=1_000,
            flow_id=flow.id,
            outcome=Outcome.COMPLETE,
            queue_seconds=1,
            work_seconds=1,
        )
    )
    return flow.id


def watching(
    folder: Path,
    workspace: WorkspaceConfiguration,
    rules: tuple[RuleSettings, ...],
    *,
    broker_url: str,
    notified: Notified,
) -> Configuration:
    """Return settings with these rules only, under which schedules are read every second."""
    poll = msgspec.structs.replace(workspace.poll, schedules_seconds=1.0)
    workspace = msgspec.structs.replace(workspace, poll=poll)
    return msgspec.structs.replace(
        fixture.configuration(
            folder, workspace, broker_url=broker_url, alertmanager=notified.settings()
        ),
        alerting=AlertingSettings(
            rules=rules, with_defaults=False, evaluation_interval_seconds=0.3
        ),
    )


def words(subscriber: Subscriber) -> dict[str, list[str]]:
    received: defaultdict[str, list[str]] = defaultdict(list)
    for (name, _, _), transitions in alerts_by_key(subscriber).items():
        received[name] += transitions
    return dict(received)


async def test_missed_disabled_and_stale_fire_and_resolve_once(tmp_path: Path) -> None:
    """A schedule fires no more, so its flow grows old, and another is off; then all is well."""
    workspace = Sandbox(
        SandboxSettings(work=WorkSettings(speed=120, failure_factor=0.0), traffic=None),
        SystemClock(),
    )
    timed, switched = flow_that_succeeds(workspace), flow_that_succeeds(workspace)
    on = schedule(workspace, timed, EVERY_TWO_SECONDS)
    workspace.world.update(on, enabled=False)
    off = schedule(workspace, switched, DailyTrigger(hour_of_day=3, minute_of_hour=0))
    rules = (rule(MISSED, timed, 3.0), rule(DISABLED, switched), rule(STALE, timed, 6.0))
    names = {str(MISSED), str(DISABLED), str(STALE)}
    async with (
        fixture.started(workspace) as url,
        keeping_broker(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        Notified(tmp_path) as notified,
        fixture.daemon(
            watching(
                tmp_path,
                fixture.workspace_configuration(workspace, url),
                rules,
                broker_url=broker.url,
                notified=notified,
            )
        ) as face,
    ):
        # A start before the rule is evaluated counts for whatever is expected within a minute.
        await eventually(lambda: is_read(face, on), why="the schedules are not read")
        await pause(A_WHILE_SECONDS)
        workspace.world.update(on, enabled=True)
        workspace.engine.schedules_changed()
        await eventually(lambda: is_awaited(face, timed), why="no start is awaited")
        before = starts(workspace, timed)
        await eventually(lambda: starts(workspace, timed) > before, why="it does not fire")
        assert words(subscriber) == {}

        workspace.world.options.schedules_skipped = 1.0
        workspace.world.update(off, enabled=False, disable_reason="its owner has left")
        fired = {name: ["fired"] for name in names}
        await eventually(
            lambda: words(subscriber) == fired, why=lambda: f"fired: {words(subscriber)}"
        )
        await eventually(lambda: notified.words().keys() == names, why=notified.words)

        workspace.world.options.schedules_skipped = 0.0
        workspace.world.update(off, enabled=True, disable_reason=None)
        expected = {name: ["fired", "resolved"] for name in names}
        await eventually(
            lambda: words(subscriber) == expected, why=lambda: f"received: {words(subscriber)}"
        )
        mailed = {name: ["firing", "resolved"] for name in names}
        await eventually(lambda: notified.words() == mailed, why=notified.words)
        await pause(A_WHILE_SECONDS)
        assert words(subscriber) == expected


async def is_read(face: Face, schedule: Schedule) -> bool:
    """True once the daemon has read the schedule."""
    (workspace,) = (await face.json("/api/v1/schedules"))["data"]
    return any(row["id"] == str(schedule.id) for row in workspace["schedules"])


async def is_awaited(face: Face, flow_id: int) -> bool:
    """True once the rules have evaluated the schedules, which are read all at once."""
    rows = (await face.json("/api/v1/pipelines"))["data"]
    return any(row["pipeline_id"] == str(flow_id) and row["expected_start_at"] for row in rows)


def starts(workspace: Sandbox, flow_id: int) -> int:
    return sum(run.flow_id == flow_id for run in workspace.world.flow_runs)
