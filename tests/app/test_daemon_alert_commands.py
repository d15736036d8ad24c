"""The commands about alerts, against a daemon that runs as a process and a real broker."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import Recipe
from tests.app import fixture
from tests.app.alert_messages import alert_events, alerts_by_key
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber, keeping_broker
from tests.app.processes import DaemonProcess, Settings, Watched, daemon_process
from tests.cli.command_process import CommandProcess, CommandResult


@dataclass
class AlertCommands:
    """A workspace in which only the test starts runs, the daemon, and a subscriber."""

    workspace: Sandbox
    daemon: DaemonProcess
    subscriber: Subscriber
    run_command: CommandProcess

    async def type(self, *arguments: str) -> CommandResult:
        return await self.run_command(*arguments, config=self.daemon.settings.path)

    async def json(self, *arguments: str) -> Any:
        done = await self.type(*arguments, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    def recipes(self) -> list[Recipe]:
        """Return one recipe of each flow."""
        world = self.workspace.world
        recipes = {
            recipe.flow_id: recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id)
        }
        return list(recipes.values())

    def run(self, recipe: Recipe, outcome: Outcome) -> str:
        engine = self.workspace.engine
        engine.order(Order(outcome=outcome, work_seconds=1, queue_seconds=1))
        return str(engine.start_job_group(recipe, by=recipe.creator_id).id)

    async def have_ended(self, *run_ids: str) -> bool:
        rows = (await self.daemon.face.json("/api/v1/runs"))["data"]
        return set(run_ids) <= {row["id"] for row in rows if row["finished_at"]}

    async def answer(self, run_id: str) -> tuple[str | None, str]:
        """Return why a run was not notified, and its sentence."""
        explanation = await self.json("explain", "job_group", run_id)
        return explanation["reason"], explanation["answer"]

    def words(self) -> list[list[str]]:
        return sorted(alerts_by_key(self.subscriber).values())


@contextlib.asynccontextmanager
async def alert_commands(folder: Path) -> AsyncIterator[AlertCommands]:
    workspace = fixture.sandbox(cancel_ratio=0.0)
    async with (
        fixture.started(workspace) as url,
        keeping_broker(folder) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        watched = Watched("acme", url, workspace.token)
        settings = Settings(folder, watched, broker_url=broker.url)
        async with daemon_process(settings) as daemon:
            await eventually(lambda: daemon.face.is_following("acme"), why="not followed")
            with contextlib.closing(CommandProcess()) as run_command:
                yield AlertCommands(workspace, daemon, subscriber, run_command)


async def test_each_run_is_explained_by_its_own_reason(tmp_path: Path) -> None:
    """Fired, deduplicated, silenced, successful: each run has its own reason."""
    async with alert_commands(tmp_path) as scenario:
        loud, quiet = scenario.recipes()[:2]
        name = next(
            flow.name for flow in scenario.workspace.world.flows.live() if flow.id == quiet.flow_id
        )
        begun = datetime.now(UTC) - timedelta(minutes=1)
        added = await scenario.type(
            *("silence", "add", f"pipeline_id={quiet.flow_id}", "workspace=acme"),
            *("--for", "2h", "--comment", "planned reload", "--author", "ann"),
        )
        assert added.code == 0, added.err
        first = scenario.run(loud, Outcome.FAILED)
        await eventually(lambda: scenario.words() == [["fired"]], why=scenario.words)
        again, hidden = scenario.run(loud, Outcome.FAILED), scenario.run(quiet, Outcome.FAILED)
        good = scenario.run(scenario.recipes()[2], Outcome.COMPLETE)
        await eventually(lambda: scenario.have_ended(again, hidden, good), why="not ended")
        await eventually(lambda: scenario.words() == [["fired"], ["silenced"]], why=scenario.words)

        by = f"acme:job_group:{first}: reported by alert run_failed ("
        reason, why = await scenario.answer(first)
        assert (reason, by in why, why.endswith(": notified through mqtt")) == (None, True, True)
        reason, why = await scenario.answer(again)
        assert (reason, "more evidence of it (2 in all)" in why) == ("deduplicated", True)
        reason, why = await scenario.answer(hidden)
        assert reason == "silenced"
        assert "by ann until" in why
        assert "planned reload" in why
        assert (await scenario.answer(good))[0] == "condition not met"

        listed = await scenario.json("alerts", "--state", "firing")
        assert {alert["rule"] for alert in listed} == {"run_failed"}
        (silent,) = [alert for alert in listed if alert["muted_by"]]
        assert silent["pipeline"] == name
        of_flow = await scenario.json("explain", "flow", str(quiet.flow_id))
        assert of_flow["reason"] == "silenced"
        of_alert = await scenario.json("explain", silent["fingerprint"])
        assert of_alert["reason"] == "silenced"

        (silence,) = await scenario.json("silence", "list")
        assert (await scenario.type("silence", "expire", silence["id"])).code == 0
        words = [["fired"], ["silenced", "fired"]]
        await eventually(lambda: scenario.words() == words, why=scenario.words)
        lines = (await scenario.type("events", "--since", "1h")).out.splitlines()
        (line,) = [line for line in lines if " alert.silenced " in line]
        alert = f"{silent['fingerprint']}  {name}  run_failed: Run "
        assert f" alert.silenced     acme  {alert}" in line
        await _acknowledge(scenario, silent["fingerprint"])
        await _backtest_and_replay(scenario, begun)


async def _acknowledge(scenario: AlertCommands, fingerprint: str) -> None:
    """Who knows of an alert is an event that subscribers get, and that an explanation lists."""
    words = ("acknowledge", fingerprint, "--for", "4h", "--author", "ann", "--comment", "on it")
    assert (await scenario.type(*words)).code == 0
    published = [["fired"], ["silenced", "fired", "acknowledged"]]
    await eventually(lambda: scenario.words() == published, why=scenario.words)
    (data,) = [
        event["data"]
        for _, event in alert_events(scenario.subscriber)
        if event["type"] == "dataprep.alert.acknowledged.v1"
    ]
    by = data["acknowledged"]
    assert (by["author"], by["comment"], data["number"]) == ("ann", "on it", 1)
    assert by["until"] > by["at"]
    topic = f"/alert/run_failed/{fingerprint}/state"
    await eventually(
        lambda: scenario.subscriber.values(topic, "acknowledged")[-1] == by,
        why="the retained state does not say who",
    )
    explained = await scenario.json("explain", fingerprint)
    assert any("alert.acknowledged: " in step["detail"] for step in explained["steps"])


async def _backtest_and_replay(scenario: AlertCommands, begun: datetime) -> None:
    """A backtest agrees with the rules that fired, and a replay reaches the broker again."""
    rows = await scenario.json("alerts", "backtest", "--since", begun.isoformat())
    (failed,) = [row for row in rows if row["rule"] == "run_failed"]
    assert (failed["would_fire"], failed["did_fire"]) == (2, 2)
    assert (failed["only_new"], failed["only_old"]) == ([], [])

    before = len(scenario.subscriber.messages)
    done = await scenario.json("replay", "--since", begun.isoformat(), "--to", "mqtt")
    (replayed,) = done
    assert (replayed["output"], replayed["refused"]) == ("mqtt", 0)
    assert replayed["sent"] > 0
    await eventually(
        lambda: len(scenario.subscriber.messages) >= before + replayed["sent"],
        why="not published again",
    )
    assert scenario.words() == [["fired"], ["silenced", "fired", "acknowledged"]]
