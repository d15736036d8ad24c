"""Holds the runbooks to what there is: alerts, rules, metrics, operations, words of the log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from monitor.alerting.explain.explanation import REASONS
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.catalogue.operations import operations
from monitor.cli.settings_files import validate_file
from tests.deploy.documents import ROOT, blocks, code
from tests.deploy.prometheus_files import recorded, rules
from tests.deploy.promql import FOREIGN, series

RUNBOOKS = ROOT / "deploy" / "runbooks.md"
ALERTS = [rule["alert"] for rule in rules("alert")]
PARTS = ("**Meaning**", "**Impact**", "**Diagnosis**", "**Action**")


def headings(path: Path) -> list[str]:
    """Return the headings of a document."""
    return re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)


def section(name: str) -> str:
    """Return what stands below one heading of the runbooks, up to the next."""
    parts = re.split(r"^#+ (.+)$", RUNBOOKS.read_text(), flags=re.MULTILINE)
    return parts[parts.index(name) + 1]


def test_runbooks_are_about_what_there_is() -> None:
    """Each alert and rule has one section, and none is left of one that is gone."""
    own = [
        heading for heading in headings(RUNBOOKS) if re.fullmatch(r"[a-z_]+|Dataprep\w+", heading)
    ]
    assert sorted(own) == sorted([*RuleKind, *ALERTS])


@pytest.mark.parametrize("kind", RuleKind)
def test_each_of_our_rules_has_a_whole_runbook(kind: RuleKind) -> None:
    """Meaning, impact, diagnosis and action."""
    assert [part for part in PARTS if part not in section(kind)] == []


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_runbook_or_stands_for_a_rule_that_has(alert: str) -> None:
    """Either all four parts, or a link to the rule of the same meaning."""
    text = section(alert)
    stands_for = re.match(r"\s*Stands for \[(\w+)\]\(#\1\)", text)
    rule = {row["alert"]: row["labels"].get("rule") for row in rules("alert")}[alert]
    assert (stands_for[1] if stands_for else "") == (rule or "")
    assert stands_for or [part for part in PARTS if part not in text] == []


def test_links_inside_lead_somewhere() -> None:
    """Each anchor is a heading, as web views make anchors of headings."""
    anchors = {heading.lower().replace(" ", "-") for heading in headings(RUNBOOKS)}
    linked = re.findall(r"\]\(#([^)]+)\)", RUNBOOKS.read_text())
    assert linked
    assert [anchor for anchor in linked if anchor not in anchors] == []


def test_each_reason_for_no_notification_is_explained() -> None:
    """Each reason that `explain` can give stands in the table, in the order of the steps."""
    table = re.findall(r"^\| `([^`]+)` \|", section("When nothing came"), re.MULTILINE)
    assert table == list(REASONS)


def test_operations_that_are_named_exist() -> None:
    """Each operation that is to be called with `api` is in the catalogue."""
    known = {operation.operation_id for operation in operations()}
    spans = code(RUNBOOKS)
    called = [name for span in spans for name in re.findall(r"monitor api ([a-z]\w+)", span)]
    called += [span.split()[0] for span in spans if re.match(r"(get|run|cancel)[A-Z]\w+", span)]
    assert called
    assert [name for name in called if name not in known] == []


def test_metrics_that_are_named_exist() -> None:
    """Each metric that is to be queried is shown by the daemon or recorded."""
    known = set(series()) | set(recorded()) | set(FOREIGN)
    named = [
        name
        for span in code(RUNBOOKS)
        for name in re.findall(r"(?<![\w/])(?:workspace\w*:)?dataprep_[\w:]+", span)
    ]
    assert named
    assert [name for name in named if name not in known] == []


def test_words_to_search_in_the_log_are_logged() -> None:
    """The words of each grep are texts of the program."""
    sources = "\n".join(path.read_text() for path in (ROOT / "monitor").rglob("*.py"))
    quoted = re.findall(r"grep '([^']+)'", RUNBOOKS.read_text())
    assert quoted
    assert [words for words in quoted if words not in sources] == []


def test_the_configuration_that_is_shown_is_right(tmp_path: Path) -> None:
    """The shown configuration has no problem beside a workspace."""
    (tmp_path / "token").write_text("a-secret-for-the-test\n")
    workspace = '[[workspaces]]\nname = "sales"\nurl = "http://127.0.0.1"\ntoken_file = "token"\n'
    path = tmp_path / "monitor.toml"
    shown = blocks("toml", RUNBOOKS)
    assert shown
    path.write_text("\n".join([workspace, *shown]))
    assert validate_file(path, {}).problems == ()
