"""No step of a report holds the event loop, however many runs have ended."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from monitor.model.runs import RunState, Status
from monitor.model.slices import pieces_of
from tests.alerting.engine_scenario import EngineScenario, engine_scenario
from tests.alerting.report_scenario import HOUR, ended_run, report_of, store_runs
from tests.full_size import FREED_IN_A_STEP, counting_steps

DAYS = 7
RUNS = 6_000
PIPELINES = 3_000
FAILURES = 6_000  # of one pipeline


async def store_in_pieces(scenario: EngineScenario, runs: list[RunState]) -> None:
    """Store them so that their end in the writer's thread is no step's."""
    for piece in pieces_of(runs, size=500):
        await store_runs(scenario, *piece)


async def test_no_step_of_a_report_over_many_runs_holds_the_loop(tmp_path: Path) -> None:
    """Neither what reads, sorts and writes them, nor the end of all that was read."""
    async with engine_scenario(tmp_path) as scenario:
        now = scenario.clock.now()
        runs = [
            ended_run(
                number,
                now - (number + 1) * timedelta(minutes=1),
                Status.SUCCEEDED if number % 3 else Status.FAILED,
                flow=number % PIPELINES,
                error="no such table",
            )
            for number in range(RUNS)
        ]
        await store_in_pieces(scenario, runs)
        runs.clear()

        with counting_steps() as longest:
            report = await report_of(scenario, hours=DAYS * 24)
        longest.assert_short()
        assert longest.freed <= FREED_IN_A_STEP, f"{longest.freeing} freed {longest.freed} objects"

    assert report.runs == RUNS
    assert len(report.failed_and_still_failing) == 500
    assert any(
        why.endswith(": 500 lines of failed and still failing left out") for why in report.missing
    )


async def test_the_failures_of_one_pipeline_hold_nothing(tmp_path: Path) -> None:
    """Thousands of one part are one line, whose runs are sorted in slices too."""
    async with engine_scenario(tmp_path) as scenario:
        now = scenario.clock.now()
        runs = [
            ended_run(number, now - (number + 1) * timedelta(seconds=6))
            for number in range(FAILURES)
        ]
        await store_in_pieces(scenario, runs)
        runs.clear()

        with counting_steps() as longest:
            report = await report_of(scenario, hours=13)
        longest.assert_short()

    (row,) = report.failed_and_still_failing
    assert row.failures == FAILURES
    assert row.run_ids == tuple(str(number) for number in range(20))
    assert row.first_ended_at < now - 9 * HOUR
