"""What is kept of pipelines does not add up: what is gone is forgotten, whatever found it gone."""

from __future__ import annotations

from monitor.catalogue.operations import Edition
from monitor.model.runs import RunKind
from monitor.tracking.pipeline_health import HEALTH
from monitor.tracking.settings import TrackingSettings
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import TinyWorkspace

HORIZON_SECONDS = TrackingSettings().forget_seconds


def run_in(
    workspace: TinyWorkspace, run_id: int, *, flow: int, recipe: int, status: str = "Complete"
) -> None:
    flow_row = {"id": flow, "name": f"flow {flow}"}
    workspace.put_job_group(run_id, status, wrangledDataset={"id": recipe, "flow": flow_row})


async def kept(scenario: Scenario) -> set[str]:
    """Return the keys of the pipeline health in the store; memory must agree."""
    state_entries = await scenario.bus.state_entries(NAME, HEALTH)
    pipeline_keys = {
        f"{status[1]}/{status[2]}/{status[3] or ''}"
        for status in scenario.live_state.pipeline_health
    }
    assert pipeline_keys == set(state_entries)
    return pipeline_keys


async def test_a_flow_that_came_and_went_between_two_lists_is_forgotten(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """No list ever showed it, so no list can miss it; after the horizon nothing is left."""
    workspace.tables["flows"][11] = {"id": 11, "name": "flow 11"}
    run_in(workspace, 1, flow=11, recipe=45)
    run_in(workspace, 2, flow=12, recipe=46)
    await scenario.polls.changes.poll()
    await scenario.polls.pipeline_names.poll()
    await clock.advance(HORIZON_SECONDS - 10)
    await scenario.polls.pipeline_names.forget_idle()
    before = await kept(scenario)
    await clock.advance(600)
    await scenario.polls.pipeline_names.forget_idle()

    assert before == {"job_group/11/45", "job_group/12/46"}
    assert await kept(scenario) == {"job_group/11/45"}
    assert [pipeline.id for pipeline in scenario.live_state.view.pipelines()] == ["11"]


async def test_a_recipe_that_is_no_longer_used_does_not_speak_for_its_flow(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Its old failure is not shown as the flow's worst forever, once others have run on."""
    workspace.tables["flows"][11] = {"id": 11, "name": "flow 11"}
    run_in(workspace, 1, flow=11, recipe=45, status="Failed")
    await scenario.polls.changes.poll()
    await scenario.polls.pipeline_names.poll()
    await clock.advance(HORIZON_SECONDS + 600)
    run_in(workspace, 2, flow=11, recipe=46)
    await scenario.polls.changes.poll()
    await scenario.polls.pipeline_names.forget_idle()

    assert await kept(scenario) == {"job_group/11/46"}


async def test_running_and_not_yet_listed_pipelines_stay(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A run of many weeks keeps its pipeline; before the first list nothing counts as missing."""
    run_in(workspace, 1, flow=11, recipe=45)
    run_in(workspace, 2, flow=12, recipe=46, status="InProgress")
    await scenario.polls.changes.poll()
    await clock.advance(HORIZON_SECONDS + 600)
    await scenario.polls.pipeline_names.forget_idle()
    before = await kept(scenario)
    await scenario.polls.pipeline_names.poll()
    await scenario.polls.pipeline_names.forget_idle()

    assert before == {"job_group/11/45", "job_group/12/46"}
    assert await kept(scenario) == {"job_group/12/46"}


async def test_where_nothing_is_listed_the_horizon_alone_decides(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """In edition LE flows come and go unobserved; those that run stay."""
    await unbegun.begin(Edition.LE)
    await clock.advance(60)
    for number in (1, 2):
        run_in(workspace, number, flow=10 + number, recipe=45)
        await unbegun.polls.by_id.confirm(unbegun.key(number))
        await clock.advance(HORIZON_SECONDS / 2 + 300)
    await unbegun.polls.pipeline_names.forget_idle()

    assert await kept(unbegun) == {"job_group/12/45"}
    assert {status[1] for status in unbegun.live_state.pipeline_health} == {RunKind.JOB_GROUP}
