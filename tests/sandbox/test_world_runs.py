"""How job groups and flow runs go in the sandbox."""

from __future__ import annotations

import pytest

from monitor.sandbox.running.engine import NothingToRunError, Order, Outcome
from monitor.sandbox.settings import WorkSettings
from monitor.sandbox.world.records.runs import NativeStatus, RanFor, RanFrom
from tests.sandbox.bench import ANYBODY, EVEN, running

CREATED, IN_PROGRESS, COMPLETE, FAILED, CANCELED = (
    nativestatu.value for nativestatu in NativeStatus
)


async def test_a_job_group_waits_works_and_completes() -> None:
    """The states come in order, each stamped with the workspace's time of that moment."""
    async with running() as bench:
        begun_at = bench.world.now()
        job_group = bench.engine.start_job_group(bench.recipe(), by=ANYBODY)
        assert bench.path("job_group", job_group.id) == [CREATED]
        await bench.clock.advance(5)
        assert bench.path("job_group", job_group.id) == [CREATED, IN_PROGRESS]
        await bench.clock.advance(20)
        assert bench.path("job_group", job_group.id) == [CREATED, IN_PROGRESS, COMPLETE]
        assert (job_group.updated_at - begun_at).total_seconds() == 25


async def test_speed_shortens_the_work() -> None:
    """Ten times the speed, a tenth of the time."""
    work = WorkSettings(speed=10, queue_seconds=(5, 5), work_seconds=(20, 20), cancel_ratio=0)
    async with running(work) as bench:
        job_group = bench.engine.start_job_group(bench.recipe(), by=ANYBODY)
        await bench.clock.advance(2.5)
        assert job_group.status is NativeStatus.COMPLETE


async def test_jobs_show_progress_and_a_heartbeat() -> None:
    """While a job works its percentage grows and its heartbeat moves."""
    async with running() as bench:
        job_group = bench.engine.start_job_group(bench.recipe(), by=ANYBODY)
        (job,) = bench.world.jobs_of(job_group)
        await bench.clock.advance(16)
        assert (job.status, job.percent_complete) == (NativeStatus.IN_PROGRESS, 50)
        assert job.last_heartbeat_at is not None
        assert (bench.world.now() - job.last_heartbeat_at).total_seconds() == 1
        await bench.clock.advance(9)
        assert (job.status, job.percent_complete) == (NativeStatus.COMPLETE, 100)
        assert job.started_at is not None
        assert job.finished_at == job_group.updated_at


async def test_a_failure_names_its_job_and_stops_the_rest() -> None:
    """One job fails with a message, those after it are canceled, none stays open."""
    async with running() as bench:
        bench.engine.order(Order(outcome=Outcome.FAILED, error_message="disk full"))
        job_group = bench.engine.start_job_group(bench.recipe(), by=ANYBODY, profiling=True)
        await bench.clock.advance(25)
        assert job_group.status is NativeStatus.FAILED
        jobs = bench.world.jobs_of(job_group)
        assert [job.error_message for job in jobs if job.status is NativeStatus.FAILED] == [
            "disk full"
        ]
        assert all(job.status.is_over and job.finished_at for job in jobs)


async def test_canceling_ends_at_once_and_only_once() -> None:
    """The first cancel returns which jobs it stopped; a second one finds nothing to do."""
    async with running() as bench:
        job_group = bench.engine.start_job_group(bench.recipe(), by=ANYBODY)
        await bench.clock.advance(7)
        assert bench.engine.cancel_job_group(job_group, by=ANYBODY) == job_group.job_ids
        assert bench.engine.cancel_job_group(job_group, by=ANYBODY) == []
        await bench.clock.advance(60)
        assert bench.path("job_group", job_group.id) == [CREATED, IN_PROGRESS, CANCELED]


async def test_a_job_group_canceled_before_its_start_skips_a_state() -> None:
    """A job group that never began goes from Created to Canceled."""
    async with running() as bench:
        job_group = bench.engine.start_job_group(bench.recipe(), by=ANYBODY)
        bench.engine.cancel_job_group(job_group)
        await bench.clock.advance(60)
        assert bench.path("job_group", job_group.id) == [CREATED, CANCELED]


async def test_a_hanging_job_group_stops_beating() -> None:
    """It stays in progress forever, its heartbeat does not move, and it can be canceled."""
    async with running() as bench:
        bench.engine.order(Order(outcome=Outcome.HANG))
        job_group = bench.engine.start_job_group(bench.recipe(), by=ANYBODY)
        await bench.clock.advance(26)
        (job,) = bench.world.jobs_of(job_group)
        beat = job.last_heartbeat_at
        await bench.clock.advance(86_400)
        assert (job_group.status, job.last_heartbeat_at) == (NativeStatus.IN_PROGRESS, beat)
        assert bench.engine.cancel_job_group(job_group) == [job.id]


async def test_orders_are_for_those_that_fit_and_are_used_up() -> None:
    """An order for one flow leaves the others alone and counts down."""
    async with running() as bench:
        ordered, other = bench.recipe(), bench.recipe()
        bench.engine.order(Order(flow_id=ordered.flow_id, outcome=Outcome.FAILED, count=2))
        recipes = [other, ordered, ordered, ordered]
        job_groups = [bench.engine.start_job_group(recipe, by=ANYBODY) for recipe in recipes]
        await bench.clock.advance(60)
        assert [job_group.status.value for job_group in job_groups] == [
            COMPLETE,
            FAILED,
            FAILED,
            COMPLETE,
        ]


async def test_a_later_job_group_appears_after_the_first_has_ended() -> None:
    """Between the two everything that is listed is over, and the flow run is not."""
    async with running() as bench:
        flow_run = bench.engine.start_flow_run(bench.flow((), (0,)), by=ANYBODY)
        assert len(flow_run.job_group_ids) == 1
        await bench.clock.advance(26)
        (first,) = bench.world.job_groups_of(flow_run)
        assert (first.status.value, flow_run.status.value) == (COMPLETE, IN_PROGRESS)
        await bench.clock.advance(1)
        second = bench.world.job_groups_of(flow_run)[1]
        assert second.created_at > first.updated_at
        assert second.flow_run_id == flow_run.id
        await bench.clock.advance(26)
        assert (second.status.value, flow_run.status.value) == (COMPLETE, IN_PROGRESS)
        await bench.clock.advance(1)
        assert bench.path("flow_run", flow_run.id) == [CREATED, IN_PROGRESS, COMPLETE]


async def test_recipes_that_wait_for_nothing_start_together() -> None:
    """Two roots begin at once; what builds upon both waits for both."""
    async with running() as bench:
        bench.engine.order(Order(work_seconds=50))
        flow_run = bench.engine.start_flow_run(bench.flow((), (), (0, 1)), by=ANYBODY)
        assert len(flow_run.job_group_ids) == 2
        await bench.clock.advance(54)
        assert len(flow_run.job_group_ids) == 2
        await bench.clock.advance(4)
        assert len(flow_run.job_group_ids) == 3


async def test_a_job_group_that_builds_upon_a_failure_never_runs() -> None:
    """A failed job group fails its flow run; the other branch still runs to its end."""
    async with running() as bench:
        flow = bench.flow((), (), (0,), (1,))
        bench.fail(flow)
        flow_run = bench.engine.start_flow_run(flow, by=ANYBODY)
        await bench.clock.advance(100)
        recipes = bench.world.recipes_of(flow.id)
        ran = [job_group.recipe_id for job_group in bench.world.job_groups_of(flow_run)]
        assert ran == [recipes[0].id, recipes[1].id, recipes[3].id]
        assert flow_run.status is NativeStatus.FAILED


async def test_a_canceled_job_group_cancels_its_flow_run() -> None:
    """Where nothing failed and something was canceled, the sum is Canceled."""
    async with running() as bench:
        flow_run = bench.engine.start_flow_run(bench.flow((), (0,)), by=ANYBODY)
        bench.engine.cancel_job_group(bench.world.job_groups_of(flow_run)[0])
        await bench.clock.advance(100)
        assert bench.path("flow_run", flow_run.id) == [CREATED, CANCELED]


async def test_chosen_recipes_run_without_those_they_build_upon() -> None:
    """Naming recipes runs these only, at once."""
    async with running() as bench:
        flow = bench.flow((), (0,))
        chosen = bench.world.recipes_of(flow.id)[1]
        flow_run = bench.engine.start_flow_run(flow, by=ANYBODY, recipe_ids=(chosen.id,))
        await bench.clock.advance(100)
        assert [job_group.recipe_id for job_group in bench.world.job_groups_of(flow_run)] == [
            chosen.id
        ]
        assert flow_run.status is NativeStatus.COMPLETE


async def test_a_flow_without_outputs_cannot_run() -> None:
    """Nothing is made where nothing can run."""
    async with running() as bench:
        flow = bench.flow()
        with pytest.raises(NothingToRunError):
            bench.engine.start_flow_run(flow, by=ANYBODY)
        assert bench.ledger.transitions() == []


async def test_a_deleted_active_run_is_lost() -> None:
    """It is gone for readers, counted as lost once, and its flow run goes on to its end."""
    async with running() as bench:
        flow_run = bench.engine.start_flow_run(bench.flow((), (0,)), by=ANYBODY)
        (job_group,) = bench.world.job_groups_of(flow_run)
        bench.engine.delete_run(job_group)
        bench.engine.delete_run(job_group)
        await bench.clock.advance(100)
        assert bench.world.job_groups.get(job_group.id) is None
        assert bench.path("job_group", job_group.id) == [CREATED, "Deleted"]
        assert bench.ledger.results()["job_group"]["lost"] == 1
        assert flow_run.status is NativeStatus.CANCELED


async def test_deleting_a_finished_run_is_no_transition() -> None:
    """A run that had ended keeps its end in the ledger."""
    async with running() as bench:
        job_group = bench.engine.start_job_group(bench.recipe(), by=ANYBODY)
        await bench.clock.advance(60)
        bench.engine.delete_run(job_group)
        assert bench.path("job_group", job_group.id) == [CREATED, IN_PROGRESS, COMPLETE]
        assert bench.world.job_groups.get(job_group.id, with_deleted=True) is job_group


async def test_editing_a_finished_run_moves_only_its_stamp() -> None:
    """A new name shows the run among the changed ones, with the same end."""
    async with running() as bench:
        job_group = bench.engine.start_job_group(bench.recipe(), by=ANYBODY)
        await bench.clock.advance(60)
        bench.engine.edit(job_group, name="renamed")
        assert job_group.updated_at == bench.world.now()
        assert len(bench.path("job_group", job_group.id)) == 3


@pytest.mark.parametrize("ran_for", [RanFor.SAMPLING, RanFor.REFRESH, RanFor.PENDING_DATASOURCE])
async def test_samples_are_distinguished(ran_for: RanFor) -> None:
    """Work for the editor is in the ledger and outside the counts of runs."""
    async with running() as bench:
        bench.engine.start_job_group(bench.recipe(), by=ANYBODY, ran_for=ran_for)
        await bench.clock.advance(60)
        assert bench.ledger.results()["job_group"]["succeeded"] == 0
        assert bench.ledger.results(with_samples=True)["job_group"]["succeeded"] == 1
        assert {transition.ran_for for transition in bench.ledger.transitions()} == {ran_for.value}


async def test_old_ended_runs_are_forgotten_and_still_counted() -> None:
    """Memory has a bound; the oldest go first, with their jobs."""
    work = WorkSettings(runs_kept=3, queue_seconds=(1, 1), work_seconds=(4, 4), cancel_ratio=0)
    async with running(work) as bench:
        recipe = bench.recipe()
        for _ in range(5):
            bench.engine.start_job_group(recipe, by=ANYBODY, ran_from=RanFrom.API)
            await bench.clock.advance(5)
        assert [job_group.id for job_group in bench.world.job_groups] == [40_003, 40_004, 40_005]
        assert len(bench.world.jobs) == 3
        assert bench.ledger.begun()["job_group"] == 5


async def test_runs_started_before_the_engine_wait_for_it() -> None:
    """Runs may be made first; they start with the engine, and it reports when it is idle."""
    async with running(EVEN) as bench:
        job_group = bench.engine.start_job_group(bench.recipe(), by=ANYBODY)
        assert not await bench.engine.idle(timeout_seconds=0)
        await bench.clock.advance(25)
        await bench.engine.over(job_group)
        assert await bench.engine.idle(timeout_seconds=1)
