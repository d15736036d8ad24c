"""Flows that stay unshared: what is evidence beside them, when they are forgotten, what is read."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from monitor.model.errors import MonitorError
from monitor.model.runs import Pipeline, PipelineKind
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario, until
from tests.polling.test_polling_lying_lists import doubted
from tests.polling.test_polling_unshared_pipelines import (
    KEPT,
    begin,
    put,
    share_again,
    unshare,
    unshared,
)
from tests.polling.tiny_workspace import FORBIDDEN, OVERLOADED, TinyWorkspace

HOUR = 3_600


def is_known(scenario: Scenario, flow: int) -> bool:
    return scenario.live_state.view.knows(NAME, Pipeline(kind=PipelineKind.FLOW, id=str(flow)))


async def test_a_stop_sends_nothing_more(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """A poll of names that is cancelled ends, whatever would have been read after its list."""
    await begin(scenario, workspace, 20)
    unshare(workspace, 20, KEPT)
    workspace.unlisted["flows"] = (20,)
    with suppress(MonitorError):
        await scenario.poll("names")  # without a witness
    workspace.faults[f"flows/{KEPT}"] = OVERLOADED
    workspace.holds["flows/20"] = asyncio.Event()
    asked, before = workspace.count("flows/20"), workspace.count(f"flows/{KEPT}")
    polling = asyncio.create_task(_poll_names(scenario))
    await until(lambda: workspace.count("flows/20") > asked)
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling

    assert workspace.count(f"flows/{KEPT}") == before


async def _poll_names(scenario: Scenario) -> None:
    await scenario.poll("names")


@pytest.mark.parametrize("are_listed", [True, False])
async def test_flows_that_may_not_be_read_hide_no_witness(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, *, are_listed: bool
) -> None:
    """Flows of other owners run, and are listed or not: another one is asked the next time."""
    for flow in range(1, 6):
        workspace.faults[f"flows/{flow}"] = FORBIDDEN
        put(workspace, 10 * flow, flow, "Complete")
        if are_listed:
            workspace.tables["flows"][flow] = {"id": flow, "name": f"flow {flow}"}
    await scenario.poll("changes")
    await begin(scenario, workspace, 20)
    unshare(workspace, 20)
    for poll in ("changes", "reconciliation"):
        await clock.advance(300)
        with suppress(MonitorError):
            await scenario.poll(poll)

    assert (doubted(scenario), unshared(scenario)) == ([], ["20"])


@pytest.mark.parametrize("is_listed", [True, False])
async def test_after_a_day_an_unshared_flow_is_forgotten(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, *, is_listed: bool
) -> None:
    """Nothing shows the last state of what was not seen since, however it was found."""
    workspace.unlisted["flows"] = () if is_listed else (20,)
    await begin(scenario, workspace, 20)
    put(workspace, 201, 20, "Complete")
    put(workspace, 202, 20)
    await scenario.poll("changes")
    unshare(workspace, 20)
    await clock.advance(60)
    await scenario.poll("changes")
    await scenario.poll("names")
    put(workspace, 203, KEPT)
    assert unshared(scenario) == ["20"]
    workspace.unlisted["jobLibrary"] = (201,)
    put(workspace, 202, 20, "Complete")
    await scenario.poll("changes")
    for _ in range(3):
        await scenario.poll("names")
    assert is_known(scenario, 20)

    for _ in range(27):
        await clock.advance(HOUR)
        await scenario.poll("names")
    assert unshared(scenario) == []
    assert not is_known(scenario, 20)


async def test_a_flow_whose_run_has_no_end_stays_unshared(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It is unknown how the run went on, and it is not forgotten after that."""
    await begin(scenario, workspace, 20)
    unshare(workspace, 20)
    for _ in range(27):
        await clock.advance(HOUR)
        await scenario.poll("changes")
        await scenario.poll("names")

    assert unshared(scenario) == ["20"]
    assert is_known(scenario, 20)


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_runs_of_an_idle_flow_before_it_was_found_unshared_are_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, *, is_stopped: bool
) -> None:
    """Its list showed it last before the run, ten minutes or a stop of hours ago."""
    await begin(scenario, workspace, 20)
    put(workspace, 201, 20, "Complete")
    await clock.advance(30)
    await scenario.poll("changes")
    await clock.advance(60)
    if is_stopped:
        await scenario.close()
    put(workspace, 202, 20, "Failed")
    unshare(workspace, 20)
    await clock.advance(5 * HOUR if is_stopped else 510)
    if is_stopped:
        await scenario.open()
        await scenario.begin()
    await scenario.poll("changes")
    await scenario.poll("names")
    assert unshared(scenario) == ["20"]

    await clock.advance(23 * HOUR)
    share_again(workspace)
    await scenario.poll("names")
    await scenario.poll("changes")
    assert "202:failed" in await scenario.run_events()
