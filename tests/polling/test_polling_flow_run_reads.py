"""What the ends of flow runs cost: requests are counted, and none is saved where doubt is left."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.clocks import ManualClock
from tests.polling.conftest import Scenario, until
from tests.polling.flow_run_rows import (
    FLOW_RUN,
    RECIPES,
    poll_all,
    put_run,
    reads,
    run_once,
    usual,
)
from tests.polling.tiny_workspace import TinyWorkspace


async def test_the_end_takes_one_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A flow whose runs are alike costs two requests for the first of them and one for others."""
    costs = [await run_once(scenario, workspace, clock, run_id) for run_id in (71, 72, 73)]

    assert costs == [(2, ["71:succeeded"]), (1, ["72:succeeded"]), (1, ["73:succeeded"])]
    assert workspace.count("flowRuns/[0-9]+") == 0


async def test_a_part_that_is_missing_or_new_is_searched_for(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """With other recipes than before, the flow run's own list is read and shows the late one."""
    await run_once(scenario, workspace, clock, 71)
    put_run(workspace, 72, recipes=(45,))
    await scenario.polls.changes.poll()
    put_run(workspace, 72, part="Complete")
    workspace.put_job_group(721, "InProgress")
    await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)
    assert "72:succeeded" not in await scenario.run_events(FLOW_RUN)

    workspace.put_job_group(721, "Failed")
    workspace.put_flow_run(72, "Failed")
    await clock.advance(61)
    await poll_all(scenario)
    assert (await scenario.run_events(FLOW_RUN))[-1] == "72:failed"


async def test_a_status_that_its_parts_do_not_come_to_is_doubted(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Complete with a failed recipe, canceled with none: the list is read, the status believed."""
    put_run(workspace, 71)
    await poll_all(scenario)
    for run_id, part, status, end in (
        (72, "Failed", "Complete", "72:succeeded"),
        (73, "Complete", "Canceled", "73:canceled"),
        (74, "Complete", "Failed", "74:failed"),
    ):
        put_run(workspace, run_id, part=part, status=status)
        await poll_all(scenario)
        assert (await scenario.run_events(FLOW_RUN))[-1] == end
        assert workspace.count(f"flowRuns/{run_id}/jobGroups") == 1


async def test_a_status_that_lags_is_read_alone(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """While only the status is late, its job groups are not read again with it."""
    await run_once(scenario, workspace, clock, 71)
    put_run(workspace, 72, status="InProgress")
    await poll_all(scenario)
    await clock.advance(1)
    await poll_all(scenario)
    workspace.put_flow_run(72, "Complete")
    await clock.advance(2)
    await poll_all(scenario)

    assert (await scenario.run_events(FLOW_RUN))[-1] == "72:succeeded"
    assert (reads(workspace, 72), workspace.count("flowRuns/72/status")) == (3, 3)


@pytest.mark.parametrize(
    ("recipes", "part", "status", "end"),
    [
        (RECIPES, "Failed", "Complete", "74:succeeded"),  # recipe errors are ignored
        (RECIPES, "Failed", "Failed", "74:failed"),
        (RECIPES, "Canceled", "Canceled", "74:canceled"),
        ((45, 46, 47), "Complete", "Complete", "74:succeeded"),
        ((45, 46, 46), "Complete", "Complete", "74:succeeded"),  # a retry
    ],
)
async def test_an_unusual_end_is_read(
    scenario: Scenario,
    workspace: TinyWorkspace,
    clock: ManualClock,
    recipes: tuple[int, ...],
    part: str,
    status: str,
    end: str,
) -> None:
    """A part that is not complete, new or repeated: the status decides, at once."""
    await usual(scenario, workspace, clock)
    put_run(workspace, 74, recipes=recipes, part=part, status=status)
    await poll_all(scenario)

    assert reads(workspace, 74) >= 1
    assert (await scenario.run_events(FLOW_RUN))[-1] == end


async def test_the_next_part_is_waited_for_before_a_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Recipes that run one after the other cost no read between them; one that never comes does."""
    await usual(scenario, workspace, clock)
    put_run(workspace, 74, recipes=(45,), status="InProgress")
    await poll_all(scenario)
    await clock.advance(14)
    await poll_all(scenario)
    assert reads(workspace, 74) == 0

    put_run(workspace, 74)
    for _ in range(2):
        await poll_all(scenario)
        await clock.advance(5)
    assert (reads(workspace, 74), (await scenario.run_events(FLOW_RUN))[-1]) == (0, "74:succeeded")

    put_run(workspace, 75, recipes=(45,))
    await poll_all(scenario)
    await clock.advance(15)
    await poll_all(scenario)
    assert (reads(workspace, 75), (await scenario.run_events(FLOW_RUN))[-1]) == (2, "75:succeeded")


async def test_a_gap_between_parts_is_read_once_for_a_flow(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Before any run of the flow is complete, one that was unfinished shows that more will come."""
    put_run(workspace, 71, recipes=(45,), status="InProgress")
    await poll_all(scenario)
    put_run(workspace, 71, status="InProgress")
    workspace.put_job_group(711, "InProgress")
    for run_id in (72, 73):
        put_run(workspace, run_id, recipes=(45,), status="InProgress")
    for _ in range(2):
        await poll_all(scenario)
        await clock.advance(5)

    assert [reads(workspace, run_id) for run_id in (71, 72, 73)] == [1, 0, 0]


async def test_a_part_that_appears_during_the_read_is_waited_for(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A status that ran ahead of a new job group ends nothing, whatever earlier runs had."""
    await run_once(scenario, workspace, clock, 71)
    put_run(workspace, 72)
    await scenario.polls.changes.poll()
    hold = workspace.holds["flowRuns/72/status"] = asyncio.Event()
    reading = asyncio.create_task(scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle))
    await until(lambda: workspace.count("flowRuns/72/status") == 1)
    put_run(workspace, 72, recipes=(45, 46, 47))
    workspace.put_job_group(722, "InProgress")
    await scenario.polls.changes.poll()
    hold.set()
    await reading
    assert "72:succeeded" not in await scenario.run_events(FLOW_RUN)
    assert scenario.polls.flow_runs.seconds_until_due() is None

    workspace.put_job_group(722, "Failed")
    workspace.put_flow_run(72, "Failed")
    await poll_all(scenario)
    assert (await scenario.run_events(FLOW_RUN))[-1] == "72:failed"


async def test_a_clock_that_is_set_back_delays_no_end(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Lists that seem to be older than the last job group lead to a read after a minute."""
    await usual(scenario, workspace, clock)
    put_run(workspace, 74)
    await poll_all(scenario)
    workspace.offset -= timedelta(hours=1)
    for _ in range(13):
        await clock.advance(5)
        await poll_all(scenario)

    assert reads(workspace, 74) == 1
    assert (await scenario.run_events(FLOW_RUN))[-1] == "74:succeeded"
