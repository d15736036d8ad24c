"""No step of a poll holds the event loop, however many runs are active, remembered or ended."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from monitor.model.observations import Observation
from monitor.model.runs import RunKind, RunState, Source, Status
from monitor.polling.lists.expected_rows import ExpectedRows
from monitor.polling.lists.list_check import ListChecks
from monitor.tracking.live_state import active_of
from monitor.workspace.payloads import RowHead
from tests.full_size import counting_steps, flow_of
from tests.polling.conftest import NAME, Scenario, until
from tests.polling.job_record_readers import readers
from tests.polling.tiny_workspace import TinyWorkspace

ACTIVE_RUNS = 40_000
REMEMBERED_ROWS = 20_000
ENDS = 10_000
FLOW_RUNS = 10_000


def run_many(scenario: Scenario) -> None:
    """Let so many job groups be active, four of each flow."""
    now = scenario.clock.now()
    for number in range(ACTIVE_RUNS):
        run = RunState(
            key=scenario.key(number),
            status=Status.RUNNING,
            pipeline=flow_of(number // 4),
            confirmed_at=now,
            confirmed_by=Source.POLL,
        )
        scenario.live_state.active[run.key] = active_of(run)


async def test_finding_out_what_a_list_must_show_does_not_hold_the_loop(scenario: Scenario) -> None:
    """As many rows as are remembered are gone through in slices, without a copy of each."""
    now = scenario.context.workspace_now()
    written = ExpectedRows(scenario.context, ListChecks(scenario.context), RunKind.JOB_GROUP)
    written.saw(
        [
            RowHead(id=str(number), native_status="Complete", updated_at=now)
            for number in range(REMEMBERED_ROWS)
        ],
        is_listed=True,
    )
    with counting_steps() as longest:
        required = await asyncio.create_task(
            written.required(now - timedelta(minutes=1)), name="required"
        )

    assert len(required) == REMEMBERED_ROWS
    longest.assert_short()


async def test_reading_the_job_records_of_many_ends_does_not_hold_the_loop(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The first of many are chosen and looked for without going over all that wait or run."""
    run_many(scenario)
    now = scenario.context.workspace_now()
    scenario.polls.details.request(
        [
            Observation(
                key=scenario.key(ACTIVE_RUNS + number),
                source=Source.POLL,
                observed_at=scenario.clock.now(),
                native_status="Complete",
                updated_at=now,
            )
            for number in range(ENDS)
        ],
        {},
    )
    assert scenario.polls.details.waiting == ENDS
    with counting_steps() as longest:
        async with readers(scenario):
            await until(lambda: workspace.count("jobGroups/[0-9]+/jobs") > 0)

    assert workspace.count("jobGroups") > 0
    longest.assert_short()


async def test_reading_the_progress_of_many_runs_does_not_hold_the_loop(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Those that pages can show are chosen without going over all that run in one step."""
    run_many(scenario)
    with counting_steps() as longest:
        await asyncio.create_task(scenario.poll("progress"), name=f"{NAME}: progress")

    assert workspace.count("jobGroups") > 0
    assert len(scenario.context.active_keys(RunKind.JOB_GROUP)) == ACTIVE_RUNS
    longest.assert_short()


async def test_choosing_among_many_flow_runs_does_not_hold_the_loop(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Those that are read next are chosen in slices, also where all of them are due."""
    for number in range(FLOW_RUNS):
        await scenario.polls.flow_runs.track(scenario.key(number, RunKind.FLOW_RUN))
    with counting_steps() as longest:
        await asyncio.create_task(scenario.poll("flow_runs"), name=f"{NAME}: flow runs")

    assert workspace.count("flowRuns/[0-9]+") > 0
    longest.assert_short()
