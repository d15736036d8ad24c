"""What no list shows is forgotten, and old runs do not bring it back; runs themselves stay."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.model.errors import TryLaterError
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import OVERLOADED, TinyWorkspace, stamp

SALES = (PipelineKind.FLOW, "11")
_TIMES = 3  # a list that shows it, or may be a moment behind, and two that do not


def is_known(scenario: Scenario) -> bool:
    return scenario.live_state.view.knows(NAME, Pipeline(kind=PipelineKind.FLOW, id="11"))


async def list_all(scenario: Scenario, times: int = _TIMES) -> None:
    for _ in range(times):
        await scenario.polls.pipeline_names.poll()


async def test_the_runs_of_a_deleted_flow_do_not_bring_it_back(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Neither the hourly list of the last day does, nor a late detail, nor a restart."""
    workspace.tables["flows"] = {11: {"id": 11, "name": "Sales"}}
    await scenario.polls.pipeline_names.poll()
    workspace.put_job_group(1, "Failed")
    await scenario.polls.changes.poll()
    del workspace.tables["flows"][11]
    await list_all(scenario)
    assert not is_known(scenario)

    await clock.advance(600)
    await scenario.poll("relist")
    assert not is_known(scenario)
    workspace.put_job_group(1, "Failed", ranfrom="schedule")  # written once more
    await scenario.polls.changes.poll()
    assert not is_known(scenario)
    assert scenario.live_state.view.pipeline_health() == ()
    await scenario.restart()
    await scenario.polls.changes.poll()
    await scenario.poll("relist")
    assert not is_known(scenario)
    state = await scenario.state(1)
    assert state is not None
    assert state.pipeline is not None
    assert state.pipeline.id == "11"


@pytest.mark.parametrize("times", ["reported", "absent"])
async def test_a_run_that_is_seen_after_its_flow_was_deleted_does_not_keep_it(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, times: str
) -> None:
    """It ended while runs could not be read; a restart between changes nothing."""
    ended = stamp(workspace.now())
    await clock.advance(60)
    workspace.tables["flows"] = {11: {"id": 11, "name": "Sales"}, 12: {"id": 12, "name": "Other"}}
    await scenario.polls.pipeline_names.poll()
    del workspace.tables["flows"][11]
    await list_all(scenario)
    assert not is_known(scenario)

    await scenario.restart()
    await clock.advance(600)
    written = ended if times == "reported" else None
    workspace.put_job_group(1, "Failed", createdAt=ended, updatedAt=written)
    await scenario.poll("relist")
    assert is_known(scenario)
    await list_all(scenario, 2)
    assert not is_known(scenario)
    assert scenario.live_state.view.pipeline_health() == ()


async def test_a_run_that_began_after_its_flow_was_found_gone_keeps_it(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A run that is there counts, whatever its list and its id have said."""
    workspace.tables["flows"] = {11: {"id": 11, "name": "Sales"}, 12: {"id": 12, "name": "Other"}}
    await scenario.polls.pipeline_names.poll()
    del workspace.tables["flows"][11]
    await list_all(scenario)
    assert not is_known(scenario)

    await clock.advance(600)
    workspace.put_job_group(1, "Failed")
    await scenario.polls.changes.poll()
    await list_all(scenario)
    assert is_known(scenario)


async def test_a_flow_that_runs_while_it_is_deleted_goes_with_its_run(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A running pipeline is known for as long as it runs, and its end is published."""
    workspace.tables["flows"] = {11: {"id": 11, "name": "Sales"}}
    await scenario.polls.pipeline_names.poll()
    workspace.put_job_group(1)
    await scenario.polls.changes.poll()
    del workspace.tables["flows"][11]
    await list_all(scenario)
    assert is_known(scenario)

    workspace.put_job_group(1, "Failed")
    await scenario.polls.changes.poll()
    assert await scenario.run_events() == ["1:queued", "1:started", "1:failed"]
    await list_all(scenario, 1)
    assert not is_known(scenario)
    assert scenario.live_state.view.pipeline_health() == ()


async def test_pipelines_that_only_history_has_named_are_forgotten(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The initial poll shows runs of flows that were deleted before anybody followed them."""
    old = stamp(workspace.now() - timedelta(hours=2))
    workspace.put_job_group(1, "Failed", createdAt=old, updatedAt=old)
    await unbegun.begin()
    await unbegun.polls.changes.poll()
    assert is_known(unbegun)
    await list_all(unbegun, 1)
    assert is_known(unbegun)  # one list is no proof
    await list_all(unbegun, 1)
    assert not is_known(unbegun)
    assert unbegun.live_state.view.pipeline_health() == ()

    await unbegun.restart()
    await unbegun.polls.changes.poll()
    await unbegun.poll("relist")
    assert not is_known(unbegun)
    await clock.advance(60)
    workspace.put_job_group(2)  # it is there after all
    await unbegun.polls.changes.poll()
    assert is_known(unbegun)


async def test_a_flow_that_was_never_listed_is_forgotten_a_month_after_its_newest_run(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It may be another person's, or may have come and gone between two lists."""
    workspace.put_job_group(1, "Failed")
    await scenario.polls.changes.poll()
    await clock.advance(29 * 86_400)
    await list_all(scenario)
    assert is_known(scenario)

    await clock.advance(2 * 86_400)
    await list_all(scenario)
    assert not is_known(scenario)


async def test_pipelines_that_a_schedule_names_stay(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A schedule that the token may see can start it any time, though no list shows it."""
    flow = Pipeline(kind=PipelineKind.FLOW, id="11")
    schedule = ScheduleKnown(id="5", name="s", is_enabled=True, triggers=(), pipelines=(flow,))
    scenario.live_state.update_workspace(NAME, schedules=(schedule,))
    workspace.put_job_group(1, "Failed")
    await scenario.polls.changes.poll()
    await clock.advance(100_000)
    await list_all(scenario)

    assert is_known(scenario)


async def test_without_an_inventory_nothing_is_forgotten(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The pipelines that runs have named are all there is to know then."""
    scenario.live_state.update_workspace(NAME, capabilities=frozenset({"list_changes"}))
    workspace.put_job_group(1, "Failed")
    await scenario.polls.changes.poll()
    await clock.advance(100_000)
    await list_all(scenario)

    assert is_known(scenario)


async def test_a_list_that_fails_forgets_nothing_that_runs_have_named(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Only a complete list shows what is not there."""
    workspace.put_job_group(1, "Failed")
    await scenario.polls.changes.poll()
    await clock.advance(100_000)
    workspace.faults["flows"] = OVERLOADED
    for _ in range(_TIMES):
        with pytest.raises(TryLaterError):
            await scenario.polls.pipeline_names.poll()

    assert is_known(scenario)
