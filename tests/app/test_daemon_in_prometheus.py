"""A real Prometheus with our rules and a real Alertmanager with our routes beside a daemon."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import Recipe
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.scraping import Prometheus, prometheus
from tests.deploy.prometheus_files import PROMETHEUS, RULES, rules
from tests.deploy.promql import TARGET_LABELS, series
from tests.deploy.test_prometheus_dashboard import expressions, plain
from tests.outputs.receiving import PostReceiver
from tests.servers import Alertmanager

PAGER, MAIL = "/page", "/mail"
# Exemplars, buckets and the like are labels of single samples, not of what they are about.
OF_SAMPLES = {"__name__", "le"}


def prompt_routes(notify_url: str) -> str:
    """Return our routes with nothing of their waits; what were a mail and a page are posts."""
    text = (PROMETHEUS / "alertmanager.yml").read_text()
    for wait in ("10s", "5s", "2m", "1m"):
        for key in ("group_wait", "group_interval"):
            text = text.replace(f"{key}: {wait}", f"{key}: 200ms")
    text = text.replace("http://127.0.0.1:8080/page", f"{notify_url}{PAGER}")
    before, mails, after = text.partition("    email_configs:\n")
    assert mails
    behind = after.partition("\n\n")[2]
    post = f"    webhook_configs:\n      - url: {notify_url}{MAIL}\n        send_resolved: true\n\n"
    return before + post + behind


def beside(manager: Alertmanager) -> str:
    """Return what Prometheus needs to know of rules and Alertmanager."""
    files = "".join(f"  - {path}\n" for path in RULES)
    return (
        f"rule_files:\n{files}alerting:\n  alertmanagers:\n"
        f"    - static_configs: [{{targets: ['127.0.0.1:{manager.port}']}}]\n"
    )


def end(workspace: Sandbox, recipe: Recipe, outcome: Outcome) -> None:
    """Let one run of a recipe begin, and end so."""
    workspace.engine.order(
        Order(flow_id=recipe.flow_id, outcome=outcome, queue_seconds=1, work_seconds=1)
    )
    workspace.engine.start_job_group(recipe, by=recipe.creator_id)


def reported(receiver: PostReceiver, path: str) -> Counter[tuple[str, str, str]]:
    """Return how often each alert was reported there: alert, kind of run and status."""
    return Counter(
        (alert["labels"]["alertname"], alert["labels"].get("kind", ""), alert["status"])
        for got in receiver.requests
        if got.path == path
        for alert in got.json()["alerts"]
    )


async def eventually_counted(scraper: Prometheus, expected: dict[str, str]) -> None:
    """Wait until the monitor's own rule has counted these transitions, and nothing else."""
    received: dict[str, str] = {}

    async def agrees() -> bool:
        received.clear()
        received.update(await own_alerts(scraper))
        return received == expected

    await eventually(agrees, why=lambda: f"counted by the monitor itself: {received}")


async def unknown_series(scraper: Prometheus) -> list[dict[str, str]]:
    """Return our scraped series that are missing from the tables for queries."""
    labels_of = series()
    ours = [
        series_row
        for series_row in await scraper.series()
        if series_row["__name__"].startswith("dataprep_")
    ]
    assert len({our["__name__"] for our in ours}) > 50
    return [
        our
        for our in ours
        if not set(our) - OF_SAMPLES - TARGET_LABELS <= labels_of.get(our["__name__"], frozenset())
    ]


async def faults(scraper: Prometheus) -> list[dict[str, Any]]:
    """Return the rules whose evaluation has failed, when all that can be are loaded."""
    loaded = await scraper.rules()
    assert len(loaded) == len(rules("alert")) + len(rules("record"))
    return [rule for rule in loaded if rule["health"] == "err"]


async def until_quiet(scraper: Prometheus) -> None:
    """Wait until no consumer lags and no alert is left, not even one that waits."""
    left: list[dict[str, str]] = []

    async def is_quiet() -> bool:
        rows = await scraper.query("dataprep_monitor_consumer_backlog > 0 or ALERTS")
        left[:] = [row["metric"] for row in rows]
        return not left

    await eventually(is_quiet, why=lambda: f"left: {left}")


async def own_alerts(scraper: Prometheus) -> dict[str, str]:
    """Return how often the monitor's own rule made each transition, by its own count."""
    rows = await scraper.query('dataprep_monitor_alert_transitions_total{rule="run_failed"} > 0')
    return {row["metric"]["to"]: row["value"][1] for row in rows}


async def test_a_failed_run_is_reported_once_and_its_end_once(tmp_path: Path) -> None:
    """From the workspace to the pager: a failure is reported, then that it is over, and no more."""
    workspace = fixture.sandbox(cancel_ratio=0.0)
    recipe = next(
        recipe for recipe in workspace.world.recipes.live() if workspace.world.outputs_of(recipe.id)
    )
    manager = Alertmanager(tmp_path, notify_url="", group_by="alertname")
    fired = ("DataprepRunFailed", "job_group", "firing")
    resolved = ("DataprepRunFailed", "job_group", "resolved")
    async with PostReceiver() as receiver, fixture.started(workspace) as url:
        manager.configure(prompt_routes(receiver.url))
        settings = fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url))
        async with (
            manager,
            fixture.daemon(settings) as face,
            prometheus(tmp_path, face.url, more=beside(manager)) as scraper,
        ):
            await eventually(lambda: face.is_following("acme"), why="not followed")
            end(workspace, recipe, Outcome.FAILED)
            await receiver.until(lambda: fired in reported(receiver, PAGER))
            end(workspace, recipe, Outcome.COMPLETE)
            await receiver.until(lambda: resolved in reported(receiver, PAGER))
            await receiver.until(lambda: resolved in reported(receiver, MAIL))

            for path in (PAGER, MAIL):
                received = {
                    key: n for key, n in reported(receiver, path).items() if key[0] == fired[0]
                }
                assert received == {fired: 1, resolved: 1}
            await eventually_counted(scraper, {"fired": "1", "resolved": "1"})
            await until_quiet(scraper)
            assert await faults(scraper) == []
            assert await unknown_series(scraper) == []
            for expression in expressions():
                await scraper.query(plain(expression))
