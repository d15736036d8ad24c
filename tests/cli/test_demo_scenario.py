"""What the demo's workspace has behind it, what happens in it, and how that is printed."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from monitor.catalogue.operations import Edition
from monitor.cli.demo_output import TIE, DemoOutput
from monitor.cli.demo_scenario import DemoScenario
from monitor.cli.demo_settings import sandbox_settings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.runs import NativeStatus
from tests.clocks import ManualClock

_NOON = datetime(2026, 11, 18, 12, 0, 20, tzinfo=UTC)
_FAILED = {
    "type": "dataprep.run.failed.v1",
    "time": "2026-11-22T10:00:00.123456Z",
    "data": {
        "pipeline": {"name": "Sales [daily]"},
        "run": {"kind": "job_group", "id": "40017", "error": "out of memory"},
    },
}
_STARTED = {
    "type": "dataprep.run.started.v1",
    "time": None,
    "data": {"pipeline": {"name": None}, "run": {"kind": "flow_run", "id": "7"}},
}
_FIRED = {
    "type": "dataprep.alert.fired.v1",
    "time": "2026-11-22T10:00:01Z",
    "data": {"labels": {"severity": "critical"}, "annotations": {"summary": "Sales failed"}},
}


def prepared(edition: Edition = Edition.RL) -> tuple[Sandbox, ManualClock, DemoScenario]:
    clock = ManualClock(start=_NOON)
    sandbox = Sandbox(sandbox_settings(edition, speed=60, seed=1), clock)
    history = DemoScenario(sandbox)
    history.prepare()
    return sandbox, clock, history


def test_the_week_of_history_ends_well() -> None:
    """A week of runs, few of them failed, and none that no later success has followed."""
    sandbox, clock, _ = prepared()
    world = sandbox.world
    oldest = min(job_group.created_at for job_group in world.job_groups)
    assert clock.now() - oldest > timedelta(days=6)
    ends = Counter(job_group.status for job_group in world.job_groups)
    assert 0 < ends[NativeStatus.FAILED] < 0.05 * ends.total()
    for shelf, pipeline in (
        (world.job_groups, "recipe_id"),
        (world.flow_runs, "flow_id"),
        (world.plan_runs, "plan_id"),
    ):
        newest = {
            getattr(run, pipeline): run.status
            for run in shelf
            if run.status in (NativeStatus.COMPLETE, NativeStatus.FAILED)
        }
        assert set(newest.values()) == {NativeStatus.COMPLETE}


async def test_three_things_go_wrong_and_nothing_else() -> None:
    """In three minutes one pipeline fails, one start is missed and one run goes on for too long."""
    sandbox, clock, history = prepared()
    world = sandbox.world
    await sandbox.start()
    running = asyncio.create_task(history.run())
    try:
        sandbox.open_for_work()
        await clock.advance(14)
        early = sandbox.ledger.results()
        assert all(counts["succeeded"] for counts in early.values())
        assert early["flow_run"]["failed"] == 1
        await clock.advance(166)
    finally:
        running.cancel()
        await sandbox.stop()
    failed = [item for item in sandbox.ledger.transitions() if item.after == "Failed"]
    assert {item.pipeline_name for item in failed} == {"Supplier invoices"}
    reasons = [
        job.error_message for job in world.jobs if job.finished_at and job.finished_at > _NOON
    ]
    assert {reason for reason in reasons if reason} == {
        "Column 'amount' could not be converted to Decimal: '1.204,50 EUR' in row 1048"
    }
    active = {
        item.pipeline_name
        for item in sandbox.ledger.transitions("plan_run")
        if ("plan_run", item.run_id) in sandbox.ledger.active()
        and item.at < _NOON - timedelta(minutes=20)
    }
    assert active == {"Demand forecast"}
    (missed,) = world.flows.having("name", "Price list")
    starts = [run.created_at for run in world.flow_runs.having("flow_id", missed.id)]
    assert [at for at in starts if at > _NOON] == []
    assert {(at.hour, at.minute) for at in starts if at.second == 0} == {(12, 1)}


def test_the_text_names_what_is_wrong_where_the_edition_shows_it() -> None:
    """The paragraph has pipelines, reason and times; without schedules and plans less is wrong."""
    _, _, history = prepared()
    text = history.text(page_url="http://127.0.0.1:8080/", broker_port=1883).replace(TIE, " ")
    for part in (
        "'Supplier invoices' fails each time it runs: Column 'amount' could not be converted",
        "'Price list' starts every day at 12:01 UTC",
        "'Demand forecast' takes 5 minutes usually, and has run since 11:29",
        "http://127.0.0.1:8080/",
        "mosquitto_sub -p 1883 -t 'dataprep/#' -v",
    ):
        assert part in text
    _, _, history = prepared(Edition.LE)
    text = history.text(page_url="http://127.0.0.1:8080/", broker_port=1883).replace(TIE, " ")
    assert "Supplier invoices" in text
    assert "Price list" not in text
    assert "Demand forecast" not in text


def printed(capsys: pytest.CaptureFixture[str], output: DemoOutput) -> list[str]:
    for event in (_FAILED, _STARTED, _FIRED):
        output.print_event(event)
    return capsys.readouterr().out.splitlines()


def test_events_are_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Each event is one line whose columns begin at the same place, with or without a time."""
    assert printed(capsys, DemoOutput()) == [
        "2026-11-22T10:00:00Z  run.failed      job_group  40017  Sales [daily]: out of memory",
        "(no time)             run.started     flow_run       7  unknown",
        "2026-11-22T10:00:01Z  alert.fired     critical   Sales failed",
    ]


def test_events_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Without events nothing is printed of them; other lines are."""
    output = DemoOutput(shows_events=False)
    assert printed(capsys, output) == []
    output.print_line("page")
    assert capsys.readouterr().out == "page\n"


def test_a_paragraph_is_broken_into_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines are short and names in one piece, between two empty lines."""
    DemoOutput().print_paragraph(" ".join([f"word 'two{TIE}words'"] * 20))
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert first == last == ""
    assert len(lines) > 1
    assert all(len(line) <= 100 and line.count("'") % 2 == 0 for line in lines)


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_shows_colours_unless_they_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_color: str
) -> None:
    """On a terminal failures are red and alerts bold; with NO_COLOR there is no escape at all."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    lines = printed(capsys, DemoOutput())
    if no_color:
        assert not any("\x1b" in line for line in lines)
    else:
        assert lines[0].startswith("\x1b[31m")
        assert lines[2].startswith("\x1b[1;31m")
