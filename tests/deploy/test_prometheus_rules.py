"""Holds the rules for Prometheus to their checker, their tests, and our metrics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from monitor.alerting.rules.monitor_degraded import BACKLOG, DEAD_LETTERS, LOST, RETAINED, UNHELD
from monitor.alerting.settings import RULE_DEFINITIONS, RuleKind
from monitor.model.alerts import Severity
from tests.deploy.prometheus_files import (
    PROMETHEUS,
    RULE_TESTS,
    RULES,
    document,
    recorded,
    rule_tests,
    rules,
    unknown_names,
    unknown_values,
)
from tests.deploy.promql import Query, read, series
from tests.deploy.test_deploy_files import checked
from tests.servers import program

ALERTS = rules("alert")
RECORDS = rules("record")
# No metric shows the progress of a single run, the pipeline of a doubtful success, or what a run
# usually takes before a deadline; and a cancellation is deliberate.
WITHOUT_PROMETHEUS_ALERT = {
    *(RuleKind.RUN_STUCK, RuleKind.CANCELED, RuleKind.SUCCESS_DOUBTED, RuleKind.DEADLINE_AT_RISK),
}


def name_of(rule: Any) -> str:
    """Return how a rule or a file is called in a test's name."""
    return rule.name if isinstance(rule, Path) else str(rule.get("alert") or rule["record"])


@pytest.mark.parametrize("path", RULES, ids=name_of)
def test_promtool_accepts_the_rules(path: Path) -> None:
    """Expressions, labels and templates are valid, and no rule is there twice."""
    output = checked(program("promtool"), "check", "rules", "--lint=all", "--lint-fatal", path)
    assert "SUCCESS" in output


@pytest.mark.parametrize("path", RULE_TESTS, ids=name_of)
def test_rules_pass_their_tests(path: Path) -> None:
    """Fed with samples, each rule fires, stays quiet and records as written down."""
    assert "SUCCESS" in checked(program("promtool"), "test", "rules", path)


def test_prometheus_loads_no_rule_that_the_monitor_sends_itself() -> None:
    """Every file is named, and that of the monitor's own rules only as a comment.

    Of what is loaded one alert stands for such a rule; an Alertmanager inhibits it by its part.
    """
    text = (PROMETHEUS / "prometheus.yml").read_text()
    named = re.findall(r"^ +(#?)- (rules/\S+)$", text, re.MULTILINE)
    own = "workspaces.yaml"
    assert sorted(named) == sorted(
        ("#" if path.name == own else "", f"rules/{path.name}") for path in RULES
    )
    standing = {
        (path.name, rule["alert"]): "rule" in rule["labels"] and bool(rule["labels"]["rule"])
        for path in RULES
        for group in document(path)["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    loaded = [alert for (name, alert), stands in standing.items() if stands and name != own]
    assert loaded == ["DataprepMonitorOutputBehind"]
    assert all(stands for (name, _), stands in standing.items() if name == own)


@pytest.mark.parametrize("rule", ALERTS, ids=name_of)
def test_each_alert_is_tested_firing_and_quiet(rule: dict[str, Any]) -> None:
    """There is a moment at which it fires and one before or after at which it does not."""
    moments = [
        moment
        for group in rule_tests()
        for moment in group.get("alert_rule_test", ())
        if moment["alertname"] == rule["alert"]
    ]
    assert {bool(moment["exp_alerts"]) for moment in moments} == {True, False}


def test_each_recorded_rule_is_computed_once() -> None:
    """Every record has a test of its value, and nothing else has."""
    recorded_names = [
        name
        for group in rule_tests()
        for moment in group.get("promql_expr_test", ())
        for name, _ in read(moment["expr"]).metrics
    ]
    assert sorted(recorded_names) == sorted(recorded())


@pytest.mark.parametrize("rule", [*ALERTS, *RECORDS], ids=name_of)
def test_rules_use_only_existing_series(rule: dict[str, Any]) -> None:
    """Each metric is ours or recorded from ours, has the labels used, and their values."""
    query = read(rule["expr"])
    assert query.metrics
    assert unknown_names(query) == []
    assert unknown_values(rule["expr"]) == []


@pytest.mark.parametrize("rule", RECORDS, ids=name_of)
def test_names_of_records_follow_the_convention(rule: dict[str, Any]) -> None:
    """level:metric:operations, where the level is the labels that are left."""
    level, metric, operations = rule["record"].split(":")
    groupings = read(rule["expr"]).groupings - {"le"}
    assert set(level.split("_")) == groupings
    assert metric.startswith("dataprep_")
    assert operations


@pytest.mark.parametrize("rule", ALERTS, ids=name_of)
def test_each_alert_has_what_an_operator_needs(rule: dict[str, Any]) -> None:
    """It has a severity, two sentences, and its section of the runbooks."""
    assert re.fullmatch(r"Dataprep[A-Z][A-Za-z]+", rule["alert"])
    assert Severity(rule["labels"]["severity"])
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"deploy/runbooks.md#{rule['alert'].lower()}"


@pytest.mark.parametrize("rule", ALERTS, ids=name_of)
def test_an_alert_for_one_of_our_rules_is_as_grave(rule: dict[str, Any]) -> None:
    """Changing from Prometheus' alerts to the monitor's own keeps what pages people."""
    kind = rule["labels"].get("rule")
    if kind:
        own = RULE_DEFINITIONS[RuleKind(kind)]
        assert rule["labels"]["severity"] == own.severity
        assert not own.for_seconds or rule["for"] == f"{own.for_seconds / 60:.0f}m"
    else:
        assert kind is None or rule["labels"]["name"] == "{{ $labels.rule }}"


def test_parts_of_the_monitor_are_called_as_it_calls_them() -> None:
    """By the label `part` an Alertmanager knows that Prometheus and the monitor mean the same."""
    parts = {rule["alert"]: rule["labels"].get("part") for rule in ALERTS}
    of_shard = "{{ with $labels.shard }}@{{ . }}{{ end }}"
    assert {alert: part for alert, part in parts.items() if part} == {
        "DataprepMonitorOutputBehind": BACKLOG + ":{{ $labels.consumer }}" + of_shard,
        "DataprepMonitorDeadLetters": DEAD_LETTERS + ":{{ $labels.output }}" + of_shard,
        "DataprepMonitorEventsLost": LOST + ":{{ $labels.consumer }}" + of_shard,
        "DataprepMonitorNothingHeld": UNHELD,
        "DataprepMonitorTopicsOverwritten": RETAINED,
    }


def test_each_of_our_rules_has_a_prometheus_alert_or_is_exempt() -> None:
    """A rule that is added is not forgotten here."""
    covered = {RuleKind(kind) for rule in ALERTS if (kind := rule["labels"].get("rule"))}
    assert covered | WITHOUT_PROMETHEUS_ALERT == set(RuleKind)
    assert not covered & WITHOUT_PROMETHEUS_ALERT


def test_queries_are_read_rightly() -> None:
    """The reader of queries separates metrics from functions, labels and strings."""
    query = read(
        'sum by (a, b) (rate(x_total{c=~"d|e{", f!=""}[5m] offset 1h)) > 2e3\n'
        "  and on (a) group_left (g) y:z:w unless absent(up) # not this"
    )
    named = {"x_total": "cf", "y:z:w": "", "up": ""}
    metrics = tuple((name, frozenset(labels)) for name, labels in named.items())
    assert query == Query(metrics, frozenset("abg"))
    assert unknown_names(read('dataprep_runs_total{colour="red"} / by_unknown')) == [
        "by_unknown",
        "dataprep_runs_total{colour}",
    ]
    assert unknown_values('x{kind="plan_run|plan", colour="red"}') == ["kind=plan", "colour=red"]


def test_metrics_are_found_where_they_are_made() -> None:
    """Names from constants, labels, and the series of a histogram are among what is known."""
    known = series()
    assert known["dataprep_monitor_api_requests_total"] == {"workspace", "operation", "code"}
    assert known["dataprep_monitor_poll_duration_seconds_bucket"] == {"poll", "le"}
    assert known["dataprep_monitor_mqtt_connected"] == {"broker"}
