"""Samples of the operations on plans and their runs."""

from __future__ import annotations

from monitor.sandbox.objects import Plan, ScheduleHistory
from monitor.sandbox.runs import PlanSnapshotRun
from tests.sandbox.samples.sample import Living, Sample, of


def furnish(living: Living) -> None:
    """Make a run of a plan, started by a schedule."""
    history = living.create(ScheduleHistory, schedule_id=71, name="hourly", triggers=(), tasks=())
    run = living.workspace.engine.start_plan_run(
        living.things.nightly, by=living.things.owner.id, schedule_history_id=history.id
    )
    assert run.schedule_history_id == history.id


SAMPLES = {
    "listPlans": Sample(),
    "countPlans": Sample(),
    "readFull": Sample(path=of(Plan)),
    "runPlan": Sample(path=of(Plan), body=lambda _: {}),
    "getSchedulesForPlan": Sample(path=of(Plan)),
    "cancelPlanSnapshotRun": Sample(path=of(PlanSnapshotRun), body=lambda _: {}),
    "listPlanSnapshotRuns": Sample(),
    "countPlanSnapshotRuns": Sample(),
    "getPlanSnapshotRun": Sample(path=of(PlanSnapshotRun)),
    "getScheduleForPlanRun": Sample(path=of(PlanSnapshotRun)),
}
