"""Holds the Alertmanager's configuration to its checker, and to whom it sends what."""

from __future__ import annotations

import re

import pytest

from monitor.alerting.conditions.table import CONDITIONS
from monitor.alerting.settings.labels import SHOWN_LABELS
from monitor.alerting.settings.rules import RuleKind
from monitor.model.alerts import Severity
from tests.deploy.prometheus_files import PROMETHEUS, document, rules
from tests.deploy.test_deploy_files import checked
from tests.servers import program

FILE = PROMETHEUS / "alertmanager.yml"
CONFIGURATION = document(FILE)


def receivers(**labels: str) -> list[str]:
    """Return who hears an alert with these labels, as Alertmanager's own tool says."""
    told = [f"{name}={value}" for name, value in labels.items()]
    command = ("config", "routes", "test", f"--config.file={FILE}", *told)
    said = checked(program("amtool"), *command)
    return said.splitlines()[0].split(",")


def test_amtool_takes_the_file() -> None:
    """The checker of Alertmanager accepts the configuration as it stands."""
    assert "SUCCESS" in checked(program("amtool"), "check-config", FILE)


@pytest.mark.parametrize(
    ("severity", "heard_by"),
    [
        (Severity.CRITICAL, ["pager", "mail"]),
        (Severity.WARNING, ["mail"]),
        (Severity.INFO, ["nobody"]),
    ],
)
def test_who_hears_what(severity: Severity, heard_by: list[str]) -> None:
    """What is critical wakes somebody, a warning is a mail, and the rest is only shown."""
    assert receivers(severity=severity, workspace="sales") == heard_by


def test_an_alert_without_severity_is_heard() -> None:
    """What nobody thought of is a mail, and not silence."""
    assert receivers(alertname="SomethingNew") == ["mail"]


def test_a_storm_is_one_message() -> None:
    """Alerts of one name and workspace go together, whatever their pipelines are."""
    assert CONFIGURATION["route"]["group_by"] == ["alertname", "workspace"]


def inhibited_by(rule: str) -> set[str]:
    """Return which rules an alert of one rule holds back."""
    return {
        target
        for one in CONFIGURATION["inhibit_rules"]
        if one["source_matchers"] == [f'rule="{rule}"']
        for matcher in one["target_matchers"]
        if matcher.startswith("rule=")
        for target in re.findall(r"[a-z_]+", matcher.partition("=")[2])
    }


def test_an_outage_holds_back_what_the_monitor_holds_back_too() -> None:
    """What an unreachable workspace explains is the same in both places, facts excepted."""
    explained = set(CONDITIONS[RuleKind.WORKSPACE_UNREACHABLE].explains)
    facts = {
        RuleKind.RUN_FAILED,
        RuleKind.FAILING_REPEATEDLY,
        RuleKind.CANCELED,
        RuleKind.SCHEDULE_DISABLED,
    }
    assert inhibited_by(RuleKind.WORKSPACE_UNREACHABLE) == explained - facts
    assert inhibited_by(RuleKind.FAILING_REPEATEDLY) == {RuleKind.RUN_FAILED}


def test_what_holds_back_and_what_is_held_back_exist() -> None:
    """Every rule, alert and label that an inhibition names is one that alerts really have."""
    names = {rule["alert"] for rule in rules("alert")}
    known = {*SHOWN_LABELS, "instance", "consumer"}
    for one in CONFIGURATION["inhibit_rules"]:
        for matcher in (*one["source_matchers"], *one["target_matchers"]):
            label, _, values = matcher.partition("=")
            assert label in known
            words = set(re.findall(r"\w+", values))
            assert label not in ("rule", "alertname") or words <= {*RuleKind, *names}
        assert set(one["equal"]) <= known
