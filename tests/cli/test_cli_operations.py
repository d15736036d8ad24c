"""``operations`` shows the catalogue."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.cli.main import main


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """Return what ``operations --json`` prints."""
    assert main(["operations", "--json", *arguments]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def test_all_operations_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Each of the 186 has method, path, name, resource, editions, operation id and query."""
    rows = listed(capsys)
    assert len(rows) == 186
    assert all(
        list(row) == ["method", "path", "name", "resource", "editions", "operation_id", "query"]
        for row in rows
    )
    assert rows[[row["operation_id"] for row in rows].index("getFlowRunStatus")] == {
        "method": "GET",
        "path": "/v4/flowRuns/:id/status",
        "name": "Get flow run status",
        "resource": "FlowRun",
        "editions": ["PL", "RL"],
        "operation_id": "getFlowRunStatus",
        "query": [],
    }


@pytest.mark.parametrize(
    ("edition", "count"), [("PC", 5), ("PL", 172), ("rl", 173), ("LE", 13), ("open", 186)]
)
def test_the_list_of_one_edition(
    capsys: pytest.CaptureFixture[str], edition: str, count: int
) -> None:
    """The list is cut to the operations of an edition, however its name is written."""
    assert len(listed(capsys, "--edition", edition)) == count


def test_the_list_of_one_resource(capsys: pytest.CaptureFixture[str]) -> None:
    """The list is cut to one resource group, also within an edition."""
    assert {row["resource"] for row in listed(capsys, "--resource", "flowrun")} == {"FlowRun"}
    assert len(listed(capsys, "--resource", "JobGroup", "--edition", "LE")) == 3


def test_the_table_reports_what_the_monitor_uses(capsys: pytest.CaptureFixture[str]) -> None:
    """Off a terminal the table is plain lines; what all operations share stands below once."""
    assert main(["operations", "--resource", "FlowRun"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["method", "path", "id", "name", "used", "for"]
    assert len(lines) == 5
    assert lines[-1] == "all: resource FlowRun, editions PL, RL"
    assert any(line.endswith("reads how a flow run ended") for line in lines)


def test_the_list_of_some_words(capsys: pytest.CaptureFixture[str]) -> None:
    """All the words must stand in id, method, path, name or resource, in any case and order."""
    rows = listed(capsys, "--filter", "flowruns get")
    assert [row["operation_id"] for row in rows] == [
        "getFlowRun",
        "getFlowRunStatus",
        "getFlowRunJobGroups",
    ]
    assert listed(capsys, "--filter", "job groups", "--edition", "LE", "--resource", "Job") == []
    assert len(listed(capsys, "--filter", " ")) == 186


@pytest.mark.parametrize(
    "arguments", [["--edition", "XL"], ["--resource", "nothing"], ["--edition"], ["surplus"]]
)
def test_wrong_usage_exits_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """An unknown edition, resource, option or argument is reported on stderr alone."""
    assert main(["operations", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Error: " in captured.err
