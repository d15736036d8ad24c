"""Reads the files of ``deploy/prometheus``: rules, their tests, and the dashboard."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from functools import cache
from typing import Any

from ruamel.yaml import YAML

from monitor.callbacks.listener import OUTCOMES as CALLBACK_OUTCOMES
from monitor.callbacks.task_statuses import STATES
from monitor.catalogue.capabilities import Capability
from monitor.listening.refusals import RefusalReason
from monitor.model.alerts import AlertState, Severity
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import RunKind, Status
from monitor.outputs.metrics.alert_metrics import DEADLINE_RESULTS
from monitor.outputs.metrics.inventory_metrics import QUALITIES
from tests.deploy.documents import ROOT
from tests.deploy.promql import FOREIGN, TARGET_LABELS, Query, series

PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES = sorted((PROMETHEUS / "rules").glob("*.yaml"))
RULE_TESTS = sorted((PROMETHEUS / "tests").glob("*.yaml"))
DASHBOARD = PROMETHEUS / "grafana" / "dataprep-monitor.json"


def document(path: Any) -> dict[str, Any]:
    """Return a YAML file as plain data."""
    read: dict[str, Any] = YAML(typ="safe").load(path)
    return read


@cache
def rules(word: str) -> list[dict[str, Any]]:
    """Return all rules of one sort: ``alert`` or ``record``."""
    groups = [group for path in RULES for group in document(path)["groups"]]
    return [rule for group in groups for rule in group["rules"] if word in rule]


@cache
def rule_tests() -> list[dict[str, Any]]:
    """Return the groups of all rule tests."""
    return [group for path in RULE_TESTS for group in document(path)["tests"]]


def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return read


@cache
def recorded() -> dict[str, frozenset[str]]:
    """Return what the rules record, with the labels that the first part of the name promises."""
    return {
        rule["record"]: frozenset(rule["record"].partition(":")[0].split("_"))
        for rule in rules("record")
    }


# Labels with closed values, by metric where they differ.
_WORDS: dict[str, Collection[str]] = {
    "kind": frozenset(RunKind),
    "result": frozenset(Status),
    "status": frozenset(Status),
    "severity": frozenset(Severity),
    "state": (*AlertState, *STATES, "active"),
    "quality": QUALITIES,
    "job": ("dataprep-monitor",),
    "shard": ("",),
    "capability": frozenset(Capability),
}
_WORDS_OF_METRIC: dict[str, tuple[str, Collection[str]]] = {
    "dataprep_monitor_polls_total": ("outcome", tuple(PollOutcome)),
    "dataprep_monitor_callback_requests_total": ("outcome", CALLBACK_OUTCOMES),
    "dataprep_deadlines_total": ("result", DEADLINE_RESULTS),
    "dataprep_monitor_server_refusals_total": ("reason", tuple(RefusalReason)),
}


def unknown_values(expression: str) -> list[str]:
    """Return the values that a query selects and that the label never has."""
    known = dict(_WORDS)
    for name, (label, words) in _WORDS_OF_METRIC.items():
        if name in expression:
            known[label] = words
    selectors = re.findall(r'(\w+)(?:=~|!~|!=|=)"([^"$]*)"', expression)
    return [
        f"{label}={word}"
        for label, words in selectors
        for word in words.split("|")
        if label not in known or word not in known[label]
    ]


def unknown_names(query: Query) -> list[str]:
    """Return what a query names and nothing exports: metrics, and labels that they do not have."""
    known = series() | recorded() | FOREIGN
    unknown = [name for name, _ in query.metrics if name not in known]
    present: set[str] = set(TARGET_LABELS)
    for name, labels in query.metrics:
        own = known.get(name, frozenset()) | TARGET_LABELS
        present |= own
        unknown += [f"{name}{{{label}}}" for label in sorted(labels - own)]
    return unknown + [f"by {label}" for label in sorted(query.groupings - present)]
