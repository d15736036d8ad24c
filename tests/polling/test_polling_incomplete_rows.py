"""Incomplete rows: what a list leaves out is read once by id, and kept."""

from __future__ import annotations

import asyncio

import pytest

from monitor.model.errors import TryLaterError
from monitor.model.runs import PipelineKind, RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario
from tests.polling.tiny_workspace import FORBIDDEN, OVERLOADED, TinyWorkspace

INCOMPLETE = ("wrangledDataset", "flowRun", "ranfor", "ranfrom")


async def pipeline_of(scenario: Scenario, run_id: int) -> str | None:
    state = await scenario.state(run_id)
    assert state is not None
    return state.pipeline.id if state.pipeline is not None else None


async def test_an_incomplete_row_is_read_once(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Flow, flow run and recipe come from one read, however often the row changes."""
    workspace.hidden = INCOMPLETE
    for status in ("Created", "InProgress", "Complete"):
        workspace.put_job_group(1, status, flowRun={"id": 71})
        await scenario.polls.changes.poll()
        await scenario.polls.changes.poll()
        await clock.advance(5)

    assert workspace.count("jobGroups/1") == 1
    assert await pipeline_of(scenario, 1) == "11"
    assert await scenario.run_events(RunKind.FLOW_RUN) == ["71:queued", "71:started"]


async def test_the_recipe_shows_the_flow(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """Once a recipe's flow is known, rows that name the recipe alone need no read."""
    workspace.put_job_group(1, "Complete")
    await scenario.polls.changes.poll()
    await scenario.restart()
    workspace.put_job_group(2, "Complete", wrangledDataset={"id": 45})
    await scenario.polls.changes.poll()

    assert await pipeline_of(scenario, 2) == "11"
    assert workspace.count("jobGroups/.") == 0
    assert scenario.live_state.names.name_of(("marketing", PipelineKind.FLOW, "11")) == "Sales"


async def test_a_sample_is_found_out_by_its_read(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A row without the reason of its run is completed before anything of it is published."""
    workspace.hidden = INCOMPLETE
    for status in ("InProgress", "Complete"):
        workspace.put_job_group(1, status, ranfor="sampling")
        await scenario.polls.changes.poll()

    assert await scenario.run_events() == []
    assert workspace.count("jobGroups/1") == 1


async def test_a_run_waits_for_its_flow_while_that_may_be_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The watermark waits for the read, other runs do not, and after some attempts nothing does."""
    await scenario.polls.changes.poll()
    stood_at = scenario.polls.changes.watermark.at
    await clock.advance(60)
    workspace.faults["jobGroups/1"] = OVERLOADED
    workspace.hidden = ("wrangledDataset",)
    workspace.put_job_group(1, "InProgress")
    workspace.put_job_group(2, "InProgress")
    for _ in range(scenario.settings.attempts - 1):
        with pytest.raises(TryLaterError):
            await scenario.polls.changes.poll()
        assert {event.split(":")[0] for event in await scenario.run_events()} == {"2"}
        assert scenario.polls.changes.watermark.at == stood_at

    await scenario.polls.changes.poll()

    assert "1:started" in await scenario.run_events()
    workspace.faults.clear()
    await scenario.polls.changes.poll()
    assert await pipeline_of(scenario, 1) == "11"


async def test_a_refused_read_leaves_the_row_as_it_is(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A job group that answers 403 delays nothing and is not requested again."""
    workspace.faults["jobGroups/1"] = FORBIDDEN
    for status in ("InProgress", "Complete"):
        workspace.put_job_group(1, status, wrangledDataset={"id": 46})
        await scenario.polls.changes.poll()

    assert "1:succeeded" in await scenario.run_events()
    assert await pipeline_of(scenario, 1) is None
    assert workspace.count("jobGroups/1") == 1


async def test_old_rows_cost_one_read_for_each_recipe(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The initial poll of a day of incomplete rows reads one job group for each recipe."""
    for number in range(1, 61):
        workspace.put_job_group(number, "Complete", wrangledDataset={"id": number % 3})
        workspace.tables["jobLibrary"][number]["flowRun"] = None
    await clock.advance(60)
    await unbegun.begin()
    await unbegun.polls.changes.poll()

    assert workspace.count("jobGroups/.*") == 3


async def test_a_row_that_two_lists_show_is_read_once(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Changes and reconciliation that show the same incomplete rows at once share the reads."""
    workspace.hidden = INCOMPLETE
    for number in range(1, 7):
        workspace.put_job_group(number, "InProgress")
    async with asyncio.TaskGroup() as group:
        for name in ("changes", "reconciliation", "relist"):
            group.create_task(scenario.poll(name), name=name)

    assert workspace.count("jobGroups/.") == 6
    events = await scenario.run_events()
    assert len(events) == len(set(events)) == 12
