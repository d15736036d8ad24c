"""Holds the Alertmanager's configuration to its checker, and to whom it sends what."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest

from monitor.alerting.settings import RULE_DEFINITIONS, SHOWN_LABELS, RuleKind
from monitor.model.alerts import Severity
from tests.app.eventually import eventually
from tests.deploy.prometheus_files import PROMETHEUS, document, rules
from tests.deploy.test_deploy_files import checked
from tests.servers import Alertmanager, program

FILE = PROMETHEUS / "alertmanager.yml"
CONFIGURATION = document(FILE)


def receivers(**labels: str) -> list[str]:
    """Return the receivers of an alert with these labels, by Alertmanager's own tool."""
    labelled = [f"{name}={value}" for name, value in labels.items()]
    command = ("config", "routes", "test", f"--config.file={FILE}", *labelled)
    output = checked(program("amtool"), *command)
    return output.splitlines()[0].split(",")


def test_amtool_accepts_the_file() -> None:
    """The checker of Alertmanager accepts the configuration as it stands."""
    assert "SUCCESS" in checked(program("amtool"), "check-config", FILE)


@pytest.mark.parametrize(
    ("severity", "notified"),
    [
        (Severity.CRITICAL, ["pager", "mail"]),
        (Severity.WARNING, ["mail"]),
        (Severity.INFO, ["none"]),
    ],
)
def test_receivers_by_severity(severity: Severity, notified: list[str]) -> None:
    """A critical alert is a page, a warning is a mail, and the rest is only shown."""
    assert receivers(severity=severity, workspace="sales") == notified


def test_an_alert_without_severity_is_mailed() -> None:
    """An alert without a route of its own is a mail, and not dropped."""
    assert receivers(alertname="SomethingNew") == ["mail"]


def test_a_storm_is_one_message() -> None:
    """Alerts of one name and workspace go together, whatever their pipelines are."""
    assert CONFIGURATION["route"]["group_by"] == ["alertname", "workspace"]


def inhibited_by(rule: str) -> set[str]:
    """Return which rules an alert of one rule holds back."""
    return {
        target
        for inhibition in CONFIGURATION["inhibit_rules"]
        if inhibition["source_matchers"] == [f'rule="{rule}"']
        for matcher in inhibition["target_matchers"]
        if matcher.startswith("rule=")
        for target in re.findall(r"[a-z_]+", matcher.partition("=")[2])
    }


def test_an_outage_holds_back_what_the_monitor_holds_back_too() -> None:
    """The alerts that an unreachable workspace explains are the same in both, facts excepted."""
    explained = set(RULE_DEFINITIONS[RuleKind.WORKSPACE_UNREACHABLE].inhibits)
    facts = {
        RuleKind.RUN_FAILED,
        RuleKind.FAILING_REPEATEDLY,
        RuleKind.CANCELED,
        RuleKind.RUN_LOST,
        RuleKind.SUCCESS_DOUBTED,
        RuleKind.SCHEDULE_DISABLED,
    }
    assert inhibited_by(RuleKind.WORKSPACE_UNREACHABLE) == explained - facts
    assert inhibited_by(RuleKind.FAILING_REPEATEDLY) == {RuleKind.RUN_FAILED}


SALES = {"workspace": "sales"}
NIGHTLY = {**SALES, "kind": "plan_run", "pipeline": "nightly"}
OUTAGE = {"alertname": "workspace_unreachable", "rule": "workspace_unreachable", **SALES}
BEHIND = {"alertname": "monitor_degraded", "rule": "monitor_degraded", "part": "backlog:mqtt"}
OVERWRITTEN = {**BEHIND, "part": "retained@north"}
REFUSED = {**BEHIND, "part": "store@north"}
LOST = {**BEHIND, "part": "lost:mqtt@north"}
UNHELD = {**BEHIND, "part": "shard:north"}
SHORT = {"alertname": "budget_exhausted", "rule": "budget_exhausted", "workspace": "stock"}
# What fires, and whether it is inhibited while all the others fire too.
TOGETHER: tuple[tuple[dict[str, str], bool], ...] = (
    (OUTAGE, False),
    (BEHIND, False),
    (OVERWRITTEN, False),
    (UNHELD, False),
    (REFUSED, False),
    (LOST, False),
    (SHORT, False),
    ({"alertname": "late", "rule": "run_overdue", **NIGHTLY}, True),
    ({"alertname": "DataprepScheduleMissed", "rule": "schedule_missed", **SALES}, True),
    ({"alertname": "DataprepMonitorPollsFailing", "poll": "changes", **SALES}, True),
    ({"alertname": "late", "rule": "run_overdue", "workspace": "hr"}, False),
    ({"alertname": "run_failed", "rule": "run_failed", **SALES}, False),
    ({"alertname": "failing_repeatedly", "rule": "failing_repeatedly", **NIGHTLY}, False),
    ({"alertname": "DataprepRunFailed", "rule": "run_failed", **NIGHTLY}, True),
    ({**BEHIND, "alertname": "DataprepMonitorOutputBehind", "consumer": "mqtt"}, True),
    ({"alertname": "DataprepMonitorOutputBehind", "part": "backlog:webhook"}, False),
    ({"alertname": "DataprepMonitorDeadLetters", "part": "dead_letters:mqtt"}, False),
    ({"alertname": "DataprepMonitorTopicsOverwritten", "part": "retained"}, True),
    ({"alertname": "DataprepMonitorNothingHeld", "part": "shard"}, True),
    ({"alertname": "DataprepMonitorStoreRefusesWrites", "instance": "north:9876"}, True),
    ({"alertname": "DataprepMonitorEventsLost", "part": "lost:mqtt@north"}, True),
    ({"alertname": "DataprepMonitorEventsLost", "part": "lost:file@north"}, False),
    ({"alertname": "DataprepRunsUnconfirmed", "kind": "plan_run", **SALES}, True),
    ({"alertname": "DataprepRunsUnconfirmed", "kind": "plan_run", "workspace": "stock"}, True),
    ({"alertname": "DataprepRunsUnconfirmed", "kind": "plan_run", "workspace": "hr"}, False),
    ({"alertname": "DataprepDeadlineUndecided", "pipeline": "nightly", **SALES}, True),
    ({"alertname": "DataprepDeadlineUndecided", "pipeline": "nightly", "workspace": "hr"}, False),
)


async def test_an_alert_that_explains_others_holds_them_back(tmp_path: Path) -> None:
    """A real Alertmanager with our file suppresses what is explained, and nothing else."""
    manager = Alertmanager(tmp_path, notify_url="", group_by="alertname")
    manager.configure(FILE.read_text())
    async with manager, aiohttp.ClientSession(manager.url) as session:
        fired = [{"labels": labels} for labels, _ in TOGETHER]
        async with session.post("/api/v2/alerts", json=fired) as answer:
            assert answer.status == 200
        held_back = [labels for labels, is_held_back in TOGETHER if is_held_back]
        suppressed: list[dict[str, str]] = []

        async def are_suppressed() -> bool:
            async with session.get("/api/v2/alerts") as answer:
                alerts = await answer.json()
            suppressed[:] = [alert["labels"] for alert in alerts if alert["status"]["inhibitedBy"]]
            # What inhibits others is taken up beside the processing of the alerts.
            return len(alerts) == len(TOGETHER) and all(
                labels in suppressed for labels in held_back
            )

        await eventually(are_suppressed, why="Alertmanager suppresses not all that are explained")
    assert [labels for labels in suppressed if labels not in held_back] == []


def test_both_sides_of_each_inhibition_exist() -> None:
    """Every rule, alert and label that an inhibition names is one that alerts really have."""
    names = {rule["alert"] for rule in rules("alert")}
    known = {*SHOWN_LABELS, "instance", "consumer"}
    for rule in CONFIGURATION["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            label, values = re.split(r"[!=~]+", matcher, maxsplit=1)
            assert label in known
            words = set(re.findall(r"\w+", values))
            assert label not in ("rule", "alertname") or words <= {*RuleKind, *names, "Dataprep"}
        assert set(rule["equal"]) <= known
