"""Faults that happen to runs: some are deleted at work, and samples come in crowds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from monitor.sandbox.api.runs.profiles import columns_of
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings
from monitor.sandbox.world.faults import parse_faults
from monitor.sandbox.world.ledger import DELETED
from monitor.sandbox.world.records.runs import NativeStatus, RanFor
from tests.clocks import ManualClock
from tests.sandbox.bench import ANYBODY, Bench, running


def start(bench: Bench, count: int) -> None:
    """Start so many job groups at once."""
    recipe = bench.recipe()
    for _ in range(count):
        bench.engine.start_job_group(recipe, by=ANYBODY)


async def test_active_runs_are_deleted() -> None:
    """Each was at work before, by the ledger, and never appears again."""
    async with running(options=parse_faults(["deleted_runs=1"])) as bench:
        flow_run = bench.engine.start_flow_run(bench.flow(()), by=ANYBODY)
        plan_run = bench.engine.start_plan_run(bench.plan(bench.flow(())), by=ANYBODY)
        await bench.clock.advance(200)
        path = [NativeStatus.CREATED, NativeStatus.IN_PROGRESS, DELETED]
        assert bench.path("flow_run", flow_run.id) == path
        assert bench.path("plan_run", plan_run.id) == path
        assert all(
            bench.path("job_group", job_group.id) == path for job_group in bench.world.job_groups
        )
        assert bench.ledger.active() == set()


async def deleted(seed: int) -> set[int]:
    async with running(options=parse_faults(["deleted_runs=0.3"]), seed=seed) as bench:
        start(bench, 60)
        await bench.clock.advance(100)
        return {
            transition.run_id
            for transition in bench.ledger.transitions()
            if transition.after == DELETED
        }


async def test_the_seed_decides_which_runs_are_deleted() -> None:
    """About the ratio of them, the same with the same seed."""
    first = await deleted(1)
    assert 8 <= len(first) <= 30
    assert first == await deleted(1)
    assert first != await deleted(2)


async def test_a_stuck_run_is_silent_and_ends_later() -> None:
    """It works, shows neither heartbeat nor progress for the requested time, and then continues."""
    options = parse_faults(["stuck_runs=1,stuck_seconds=900"])
    async with running(options=options) as bench:
        job_group = bench.engine.start_job_group(bench.recipe(), by=ANYBODY)
        await bench.clock.advance(60)
        job = bench.world.jobs_of(job_group)[0]
        silent_since, percent = job.last_heartbeat_at, job.percent_complete
        await bench.clock.advance(800)
        assert bench.path("job_group", job_group.id)[-1] == NativeStatus.IN_PROGRESS
        assert (job.last_heartbeat_at, job.percent_complete) == (silent_since, percent)
        await bench.clock.advance(100)
        assert bench.path("job_group", job_group.id)[-1] == NativeStatus.COMPLETE


async def test_a_stuck_run_can_be_canceled() -> None:
    """Who does not want to wait ends it."""
    async with running(options=parse_faults(["stuck_runs=1"])) as bench:
        job_group = bench.engine.start_job_group(bench.recipe(), by=ANYBODY)
        await bench.clock.advance(600)
        bench.engine.cancel_job_group(job_group)
        await bench.clock.advance(4_000)
        assert bench.path("job_group", job_group.id)[-1] == NativeStatus.CANCELED


@asynccontextmanager
async def sampling(spec: str) -> AsyncIterator[tuple[Sandbox, ManualClock]]:
    clock = ManualClock()
    settings = SandboxSettings(
        traffic=None,
        schedules_fire=False,
        options=parse_faults([spec]),
        work=WorkSettings(speed=10),
    )
    sandbox = Sandbox(settings, clock)
    await sandbox.start()
    try:
        yield sandbox, clock
    finally:
        await sandbox.stop()


async def test_samples_come_at_their_rate() -> None:
    """Samples, refreshes and pending sources are started, and nothing that is a real run."""
    async with sampling("samples_per_minute=30") as (sandbox, clock):
        await clock.advance(120)
        kinds = {job_group.ran_for for job_group in sandbox.world.job_groups}
        assert kinds == {RanFor.SAMPLING, RanFor.REFRESH, RanFor.PENDING_DATASOURCE}
        assert sandbox.ledger.begun()["job_group"] == 0
        assert sandbox.ledger.begun(with_samples=True)["job_group"] == 60


async def test_the_rate_of_samples_may_change_and_end() -> None:
    """The rate is read repeatedly; while nothing is to be started, samples are not either."""
    async with sampling("samples_per_minute=0") as (sandbox, clock):
        await clock.advance(60)
        assert len(sandbox.world.job_groups) == 0
        sandbox.world.options.samples_per_minute = 60.0
        await clock.advance(60)
        assert 54 <= len(sandbox.world.job_groups) <= 60
        sandbox.stop_starting()
        count = len(sandbox.world.job_groups)
        await clock.advance(60)
        assert len(sandbox.world.job_groups) == count


async def test_runs_that_begin_under_it_make_unfit_values() -> None:
    """A run from before keeps its quality; one that begins under the fault has so much less."""
    async with running() as bench:
        recipe = bench.recipe()
        before = bench.engine.start_job_group(recipe, by=ANYBODY)
        bench.world.options.unfit_values = 0.5
        after = bench.engine.start_job_group(recipe, by=ANYBODY)
        await bench.clock.advance(200)
        ratios = [
            sum(column.valid for column in columns)
            / sum(column.valid + column.invalid for column in columns)
            for columns in (columns_of(bench.world, run) for run in (before, after))
        ]
    assert ratios[0] > 0.97
    assert 0.45 < ratios[1] < 0.51
