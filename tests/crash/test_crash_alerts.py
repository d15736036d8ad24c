"""``kill -9`` and full disks while pipelines fail and recover: each alert is reported once.

So is its end, also to a real Alertmanager.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.world.records.objects import Recipe
from tests.app.alert_messages import AlertKey, alert_events, alerts_by_key
from tests.app.eventually import eventually, pause
from tests.crash import sent_alerts
from tests.crash.cluster.watches import AlertmanagerWatch, labels_of
from tests.crash.conftest import ReportCounts
from tests.crash.disks import Disk, small_file_system
from tests.crash.scenario import Scenario, scenario
from tests.outputs.receiving import PostReceiver
from tests.servers import Alertmanager

_PATIENCE_SECONDS = 60.0


def recipes_of(scenario: Scenario) -> list[Recipe]:
    """Return one recipe of each flow that can run."""
    world = scenario.workspace.world
    recipes = {
        recipe.flow_id: recipe for recipe in world.recipes.live() if world.outputs_of(recipe.id)
    }
    return list(recipes.values())


def received(scenario: Scenario) -> dict[AlertKey, list[str]]:
    """Return what was reported of failures; an id that came with two contents fails the test."""
    return {
        alert_key: words
        for alert_key, words in alerts_by_key(scenario.subscriber).items()
        if alert_key[0] == "run_failed"
    }


async def end_runs(scenario: Scenario, recipes: list[Recipe], outcome: Outcome) -> None:
    """Let one job group of each flow end so, one after the other, for a few seconds."""
    for recipe in recipes:
        seconds = scenario.chance.uniform(0.2, 1.0)
        order = Order(
            flow_id=recipe.flow_id, outcome=outcome, queue_seconds=0.1, work_seconds=seconds
        )
        scenario.workspace.engine.order(order)
        scenario.workspace.engine.start_job_group(recipe, by=recipe.creator_id)
        await pause(scenario.chance.uniform(0.0, 0.4))


async def kill_until(scenario: Scenario, expected: list[list[str]], *, kills: int) -> None:
    """Kill the daemon at random moments while runs end, then wait for what must be reported."""
    for _ in range(kills):
        await pause(scenario.chance.uniform(0.0, 1.2))
        await scenario.kill()
    await eventually(
        lambda: list(received(scenario).values()) == expected,
        why=lambda: f"seed {scenario.seed}: {received(scenario)}\n{scenario.daemon.log[-3000:]}",
        within_seconds=_PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.soak)])
async def test_kills_while_pipelines_fail_and_recover(
    tmp_path: Path, seed: int, report_counts: ReportCounts, kills: int
) -> None:
    """In each half: every flow that failed fired once, every one that recovered resolved once."""
    async with scenario(tmp_path, seed=seed) as crash:
        recipes = recipes_of(crash)
        for outcome, words in (
            (Outcome.FAILED, ["fired"]),
            (Outcome.COMPLETE, ["fired", "resolved"]),
        ):
            ending = asyncio.create_task(end_runs(crash, recipes, outcome))
            await kill_until(crash, [words] * len(recipes), kills=kills)
            await ending
        await pause(2)

        assert list(received(crash).values()) == [["fired", "resolved"]] * len(recipes)
        assert await crash.daemon.end() == 0
        assert "Traceback" not in crash.daemon.log
        report_counts("kills among alerts", seed=seed, alerts=len(recipes), kills=crash.kills)


@pytest.mark.parametrize("meanwhile", ["killed", pytest.param("alive", marks=pytest.mark.soak)])
async def test_a_full_disk_takes_no_alert_back_at_an_alertmanager(
    tmp_path: Path, seed: int, report_counts: ReportCounts, meanwhile: str
) -> None:
    """Flows fail and recover while the disk is full, twice: Alertmanager notifies once of each."""
    async with AsyncExitStack() as stack:
        disk = stack.enter_context(small_file_system(tmp_path))
        notified = await stack.enter_async_context(PostReceiver())
        alertmanager = await stack.enter_async_context(
            Alertmanager(tmp_path, notify_url=notified.url, group_by="'...'")
        )
        watch = await stack.enter_async_context(
            AlertmanagerWatch(alertmanager.url, find_daemon=lambda *_: "")
        )
        crash = await stack.enter_async_context(
            scenario(tmp_path, seed=seed, store=disk.path, alertmanager_url=watch.url)
        )
        recipes, words = recipes_of(crash), list[str]()
        for outcome in (Outcome.FAILED, Outcome.COMPLETE, Outcome.FAILED, Outcome.COMPLETE):
            words.append("fired" if outcome is Outcome.FAILED else "resolved")
            await end_with_full_disk(crash, disk, recipes, outcome, is_killed=meanwhile == "killed")
            await kill_until(crash, [words] * len(recipes), kills=0)
        counts = Counter[tuple[str, str]]()

        def are_notified() -> bool:
            nonlocal counts
            counts = notifications(notified)
            return len(counts) == 2 * len(recipes) and set(counts.values()) == {2}

        await eventually(are_notified, why=lambda: f"seed {seed}: {counts}\n{crash.daemon.log}")
        fired = [
            (labels_of(event["data"]), event["data"]["startsAt"])
            for _, event in alert_events(crash.subscriber)
            if event["type"] == "dataprep.alert.fired.v1"
        ]
        assert sent_alerts.taken_back(fired, watch.sent) == []
        assert await crash.daemon.end() == 0
        assert "Traceback" not in crash.daemon.log
        assert notifications(notified) == counts
        sent, resent = sent_alerts.sent_and_resent(watch.sent)
        report_counts("alerts around a full disk", seed=seed, sent=sent, resent=resent)


async def end_with_full_disk(
    scenario: Scenario, disk: Disk, recipes: list[Recipe], outcome: Outcome, *, is_killed: bool
) -> None:
    """Let runs end while the disk becomes full, is full, and has room again; or the daemon dies."""
    ending = asyncio.create_task(end_runs(scenario, recipes, outcome))
    await pause(scenario.chance.uniform(0.0, 1.0))
    disk.fill(scenario.daemon.process_id)
    await eventually(scenario.reports_that_the_store_fails, why=lambda: scenario.daemon.log[-3000:])
    await pause(scenario.chance.uniform(0.0, 2.0))
    if is_killed:
        assert await scenario.daemon.end(signal.SIGKILL) == -signal.SIGKILL
    disk.free(0)
    if is_killed:
        await scenario.daemon.start()
    await ending


def notifications(notified: PostReceiver) -> Counter[tuple[str, str]]:
    """Return how often Alertmanager has said of a flow that it fails, and that it does no more."""
    return Counter(
        (labels_of(alert), alert["status"])
        for request in notified.requests
        for alert in request.json()["alerts"]
        if alert["labels"]["alertname"] == "run_failed"
    )
