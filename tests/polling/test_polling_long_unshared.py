"""Flows that stay unshared: what is evidence beside them, when they are forgotten, what is read."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from monitor.model.errors import MonitorError
from monitor.model.runs import Pipeline, PipelineKind
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scene, until
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


def is_known(scene: Scene, flow: int) -> bool:
    return scene.live_state.view.knows(NAME, Pipeline(kind=PipelineKind.FLOW, id=str(flow)))


async def test_a_stop_sends_nothing_more(scene: Scene, workspace: TinyWorkspace) -> None:
    """A poll of names that is cancelled ends, whatever would have been read after its list."""
    await begin(scene, workspace, 20)
    unshare(workspace, 20, KEPT)
    workspace.unlisted["flows"] = (20,)
    with suppress(MonitorError):
        await scene.poll("names")  # without a witness
    workspace.faults[f"flows/{KEPT}"] = OVERLOADED
    workspace.holds["flows/20"] = asyncio.Event()
    asked, before = workspace.count("flows/20"), workspace.count(f"flows/{KEPT}")
    polling = asyncio.create_task(_poll_names(scene))
    await until(lambda: workspace.count("flows/20") > asked)
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling

    assert workspace.count(f"flows/{KEPT}") == before


async def _poll_names(scene: Scene) -> None:
    await scene.poll("names")


@pytest.mark.parametrize("are_listed", [True, False])
async def test_flows_that_may_not_be_read_hide_no_witness(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock, *, are_listed: bool
) -> None:
    """Flows of other owners run, and are listed or not: another one is asked the next time."""
    for flow in range(1, 6):
        workspace.faults[f"flows/{flow}"] = FORBIDDEN
        put(workspace, 10 * flow, flow, "Complete")
        if are_listed:
            workspace.tables["flows"][flow] = {"id": flow, "name": f"flow {flow}"}
    await scene.poll("changes")
    await begin(scene, workspace, 20)
    unshare(workspace, 20)
    for poll in ("changes", "reconciliation"):
        await clock.advance(300)
        with suppress(MonitorError):
            await scene.poll(poll)

    assert (doubted(scene), unshared(scene)) == ([], ["20"])


@pytest.mark.parametrize("is_listed", [True, False])
async def test_after_a_day_an_unshared_flow_is_forgotten(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock, *, is_listed: bool
) -> None:
    """Nothing shows the last state of what nobody has seen since, however it was found."""
    workspace.unlisted["flows"] = () if is_listed else (20,)
    await begin(scene, workspace, 20)
    put(workspace, 201, 20, "Complete")
    put(workspace, 202, 20)
    await scene.poll("changes")
    unshare(workspace, 20)
    await clock.advance(60)
    await scene.poll("changes")
    await scene.poll("names")
    put(workspace, 203, KEPT)
    assert unshared(scene) == ["20"]
    workspace.unlisted["jobLibrary"] = (201,)
    put(workspace, 202, 20, "Complete")
    await scene.poll("changes")
    for _ in range(3):
        await scene.poll("names")
    assert is_known(scene, 20)

    for _ in range(27):
        await clock.advance(HOUR)
        await scene.poll("names")
    assert unshared(scene) == []
    assert not is_known(scene, 20)


async def test_a_flow_whose_run_has_no_end_stays_unshared(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Nobody knows how the run went on, and it is not forgotten after that."""
    await begin(scene, workspace, 20)
    unshare(workspace, 20)
    for _ in range(27):
        await clock.advance(HOUR)
        await scene.poll("changes")
        await scene.poll("names")

    assert unshared(scene) == ["20"]
    assert is_known(scene, 20)


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_what_an_idle_flow_did_before_it_was_found_unshared_is_read(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock, *, is_stopped: bool
) -> None:
    """Its list showed it last before the run, ten minutes or a stop of hours ago."""
    await begin(scene, workspace, 20)
    put(workspace, 201, 20, "Complete")
    await clock.advance(30)
    await scene.poll("changes")
    await clock.advance(60)
    if is_stopped:
        await scene.close()
    put(workspace, 202, 20, "Failed")
    unshare(workspace, 20)
    await clock.advance(5 * HOUR if is_stopped else 510)
    if is_stopped:
        await scene.open()
        await scene.begin()
    await scene.poll("changes")
    await scene.poll("names")
    assert unshared(scene) == ["20"]

    await clock.advance(23 * HOUR)
    share_again(workspace)
    await scene.poll("names")
    await scene.poll("changes")
    assert "202:failed" in await scene.run_events()
