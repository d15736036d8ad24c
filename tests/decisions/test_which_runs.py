"""Which runs there are, what they belong to, and when they are over."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.model.runs import PipelineKind, RunKind, Status
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.settings import WorldOptions
from monitor.sandbox.world.records.objects import Plan
from monitor.sandbox.world.records.runs import SAMPLING_LIKE, PlanSnapshotRun, RanFor
from tests.decisions.followed import ADA, ALL, HAND_OVER_SECONDS, Followed, following


async def test_the_second_job_group_appears_after_the_first_ended(tmp_path: Path) -> None:
    """A flow run between two of its job groups goes on, and ends as the last of them did.

    A monitor that derives the end from the job groups that exist shows a false success.
    """
    async with following(tmp_path) as it:
        for outcome in (Outcome.COMPLETE, Outcome.FAILED):
            it.sandbox.engine.order(Order(outcome=outcome, queue_seconds=1.0, work_seconds=20.0))
        run = it.sandbox.engine.start_flow_run(it.flow("Inventory"), by=ADA)
        await it.pass_time(HAND_OVER_SECONDS)
        groups = it.sandbox.world.job_groups_of(run)
        assert [await it.transitions(group.id) for group in groups] == [ALL]
        assert await it.transitions(run.id) == ["queued", "started"]

        await it.pass_time(3 * HAND_OVER_SECONDS)
        assert len(it.sandbox.world.job_groups_of(run)) == 2
        assert await it.transitions(run.id) == ["queued", "started", "failed"]


@pytest.mark.parametrize("may", ["be read", "not be read"])
async def test_plan_runs_name_snapshots(tmp_path: Path, may: str) -> None:
    """Each run is published with the plan that people know, also without a readable snapshot.

    Used as it comes, the snapshot's id makes a new pipeline with each edit of the plan.
    """
    options = WorldOptions(snapshot_every_plan_run=True, forbidden_snapshots=may == "not be read")
    async with following(tmp_path, options=options) as it:
        plan = next(plan for plan in it.sandbox.world.plans.live() if plan.name == "Sensors")
        runs = [await one_plan_run(it, plan) for _ in range(3)]
        shown = {it.sandbox.world.plan_id_shown(run) for run in runs}
        assert plan.id not in shown
        assert len(shown) == 3
        events = [event for event in await it.events() if event.run.key.kind is RunKind.PLAN_RUN]
        assert [event.type.removeprefix("run.") for event in events] == ALL * 3
        pipelines = {
            (active.run.pipeline.kind, active.run.pipeline.id)
            for active in events
            if active.run.pipeline
        }
        assert pipelines == {(PipelineKind.PLAN, str(plan.id))}
        assert [active.id for active in events if active.run.pipeline is None] == []


async def one_plan_run(it: Followed, plan: Plan) -> PlanSnapshotRun:
    it.sandbox.engine.order(Order(outcome=Outcome.COMPLETE, queue_seconds=1.0, work_seconds=20.0))
    run = it.sandbox.engine.start_plan_run(plan, by=ADA)
    await it.pass_time(5 * HAND_OVER_SECONDS)
    return run


async def test_incomplete_rows(tmp_path: Path) -> None:
    """Flow and flow run are published from the first event on, though the list shows neither.

    Without completion, such rows belong to no pipeline, and no flow run is ever observed.
    """
    async with following(tmp_path, options=WorldOptions(library_rows="bare")) as it:
        flow = it.flow("Web clicks")
        it.sandbox.engine.order(Order(outcome=Outcome.COMPLETE, queue_seconds=1, work_seconds=20))
        run = it.sandbox.engine.start_flow_run(flow, by=ADA)
        (group,) = it.sandbox.world.job_groups_of(run)
        await it.pass_time(3 * HAND_OVER_SECONDS)
        assert await it.transitions(run.id) == ALL
        events = await it.events(group.id)
        assert [event.run.pipeline and event.run.pipeline.id for event in events] == [
            str(flow.id)
        ] * 3
        assert {event.run.parents.flow_run for event in events} == {str(run.id)}


@pytest.mark.parametrize("rows", ["with_flow", "bare"])
async def test_sampling_jobs(tmp_path: Path, rows: str) -> None:
    """A job group that samples or refreshes is counted and never becomes a run.

    In the editor's traffic the runs of pipelines would drown.
    """
    options = WorldOptions(library_rows=rows)  # type: ignore[arg-type]  # one of its words
    async with following(tmp_path, options=options) as it:
        samples = [it.run_job_group(ran_for=ran_for) for ran_for in sorted(SAMPLING_LIKE)]
        real = it.run_job_group(ran_for=RanFor.PROFILE)
        await it.pass_time(900, step=60)
        answers = [await it.poller.track(RunKind.JOB_GROUP, str(sample.id)) for sample in samples]
        assert await it.all_transitions() == [f"{real.id}:{word}" for word in ALL]
        assert answers == [False] * len(samples)
        assert it.ignored("poll") >= len(samples)


async def test_deleted_runs(tmp_path: Path) -> None:
    """A run that a user deletes while it is active ends once as lost; its neighbour goes on.

    Where what the lists omit is not read, it stays active forever.
    """
    async with following(tmp_path) as it:
        gone, stays = it.run_job_group(work_seconds=3_000), it.run_job_group(work_seconds=3_000)
        await it.pass_time(60)
        it.sandbox.engine.delete_run(gone)
        await it.pass_time(1_200, step=60)
        assert await it.transitions(gone.id) == ["queued", "started", "lost"]
        assert await it.transitions(stays.id) == ["queued", "started"]
        assert [key.id for key in it.scenario.live_state.active] == [str(stays.id)]
        assert Status.LOST in {event.run.status for event in await it.events(gone.id)}


@pytest.mark.parametrize("fault", ["the operation is lost", "the read fails"])
async def test_runs_that_may_not_be_read_are_not_gone(tmp_path: Path, fault: str) -> None:
    """While reads by id show nothing no run ends by that, and each is published when it ended.

    If every refusal counted as a deletion, all active runs would be lost at once.
    """
    async with following(tmp_path) as it:
        group = it.run_job_group(work_seconds=3_000)
        await it.pass_time(60)
        it.options.late_rows, it.options.late_seconds = 1.0, 80_000.0
        # Its job records would show that it is there.
        it.options.only = frozenset({"getJobGroup", "getJobsForJobGroup"})
        if fault == "the operation is lost":
            it.options.lose.update(dict.fromkeys(it.options.only, 0.0))
        else:
            it.options.status_503 = 1.0
        await it.pass_time(1_500, step=60)
        assert await it.transitions(group.id) == ["queued", "started"]
        it.options.late_rows = 0.0
        await it.pass_time(2_000, step=60)
        assert await it.transitions(group.id) == ALL
