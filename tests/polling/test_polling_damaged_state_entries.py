"""What the polls find damaged in the store is learned again, with a word in the log."""

from __future__ import annotations

import structlog

from monitor.bus.contract import Change, StateEntry
from tests.polling.conftest import NAME, Scenario

DAMAGED = (
    ("watermark", "changes", b'"2026-11-21T10:00:00"'),  # without a zone
    ("watermark", "plan_runs", b"{"),
    ("recipe", "1", b"[]"),
    ("recipe", "2", b"\xff"),
    ("inventory", "flow", b""),
    ("inventory", "neither", b'["1"]'),
    ("snapshot", "1", b"\xff"),
    ("snapshot", "2", b"13"),
    ("unlabelled_plan_run", "7", b'{"plan_id": 900}'),
    ("pipeline_health", "1", b"null"),
    ("refetch_queue", "nothing/7", b"1"),
    ("refetch_queue", "job_group/", b"1"),
)


async def test_damaged_state_entries_stop_no_poll(scenario: Scenario) -> None:
    """Each is left out, and all parts load."""
    state_entries = tuple(
        StateEntry(workspace=NAME, topic=topic, key=key, value=value)
        for topic, key, value in DAMAGED
    )
    await scenario.bus.commit(Change(state_entries=state_entries), timeout_seconds=5)
    with structlog.testing.capture_logs() as logged:
        await scenario.restart()

    left_out = [item["reason"] for item in logged if "reason" in item]
    for named in (
        "watermark 'changes'",
        "watermark 'plan_runs'",
        "recipe '1'",
        "recipe '2'",
        "inventory 'flow'",
        "pipeline_health '1'",
        "snapshot '1'",
        "snapshot '2'",
        "unlabelled_plan_run '7'",
    ):
        assert any(f"stored as {named} cannot be understood" in item for item in left_out), named
    assert "refetch_queue 'nothing/7' names no run" in left_out
    assert "refetch_queue 'job_group/' names no run" in left_out
