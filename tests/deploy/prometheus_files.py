"""Reads the files of ``deploy/prometheus``: rules, their tests, and the dashboard."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from ruamel.yaml import YAML

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


def strangers(query: Query) -> list[str]:
    """Return what a query names and nobody shows: metrics, and labels that they do not have."""
    known = series() | recorded() | FOREIGN
    wrong = [name for name, _ in query.metrics if name not in known]
    present: set[str] = set(TARGET_LABELS)
    for name, labels in query.metrics:
        own = known.get(name, frozenset()) | TARGET_LABELS
        present |= own
        wrong += [f"{name}{{{label}}}" for label in sorted(labels - own)]
    return wrong + [f"by {label}" for label in sorted(query.groupings - present)]
