"""Deadlines on the metrics page."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from monitor.model.alerts import AlertingSnapshot, PipelineDeadlines
from monitor.model.runs import PipelineKind, RunKind
from tests.outputs.metrics_daemon import a_daemon
from tests.outputs.metrics_examples import NOON, named, samples, series

NEXT = "dataprep_deadline_timestamp_seconds"
DECIDED = "dataprep_deadlines_total"
NIGHTLY = {"workspace": "one", "pipeline": "nightly"}


async def test_deadlines_are_shown_and_counted_from_0(tmp_path: Path) -> None:
    """The next one by its time, and both results, for what has deadlines and nothing else."""
    at = NOON + timedelta(hours=9)
    async with a_daemon(tmp_path / "state.db") as daemon:
        daemon.reachable()
        daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "7", "nightly")
        daemon.live_state.name_pipeline("one", PipelineKind.FLOW, "3", "orders")
        daemon.alerting = AlertingSnapshot(
            deadlines={
                ("one", RunKind.PLAN_RUN, "7"): PipelineDeadlines(
                    next_at=at, missed_at=NOON, met=0, missed=2
                ),
                ("gone", RunKind.PLAN_RUN, "7"): PipelineDeadlines(
                    next_at=at, missed_at=None, met=1, missed=1
                ),
            }
        )
        page = await daemon.page()
    found = samples(page)
    assert found[series(NEXT, **NIGHTLY)] == at.timestamp()
    assert found[series(DECIDED, **NIGHTLY, result="met")] == 0
    assert found[series(DECIDED, **NIGHTLY, result="missed")] == 2
    assert len(named(page, NEXT)) == 1


async def test_a_flow_and_a_plan_of_one_name_share_their_deadlines(tmp_path: Path) -> None:
    """The labels name no kind: the earlier deadline, and the sum of both."""
    early, late = NOON + timedelta(hours=1), NOON + timedelta(hours=2)
    async with a_daemon(tmp_path / "state.db") as daemon:
        daemon.reachable()
        daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "7", "nightly")
        daemon.live_state.name_pipeline("one", PipelineKind.FLOW, "3", "nightly")
        daemon.alerting = AlertingSnapshot(
            deadlines={
                ("one", kind, pipeline): PipelineDeadlines(
                    next_at=at, missed_at=None, met=2, missed=1
                )
                for kind, pipeline, at in (
                    (RunKind.PLAN_RUN, "7", late),
                    (RunKind.FLOW_RUN, "3", early),
                )
            }
        )
        found = samples(await daemon.page())
    assert found[series(NEXT, **NIGHTLY)] == early.timestamp()
    assert found[series(DECIDED, **NIGHTLY, result="met")] == 4
