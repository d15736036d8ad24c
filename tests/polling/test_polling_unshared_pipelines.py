"""Flows that are no longer shared with the token's owner: doubted themselves, and nothing else."""

from __future__ import annotations

from contextlib import suppress

import pytest

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import MonitorError
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scene
from tests.polling.test_polling_lying_lists import doubted
from tests.polling.tiny_workspace import FORBIDDEN, NO_OBJECT, TinyWorkspace

KEPT = 10  # a flow that stays


async def begin(scene: Scene, workspace: TinyWorkspace, *flows: int, runs: int = 1) -> None:
    """Begin so many runs of each flow, beside a flow that stays and does not run."""
    for flow in (KEPT, *flows):
        workspace.tables["flows"][flow] = {"id": flow, "name": f"flow {flow}"}
    await scene.poll("names")
    for flow in flows:
        for number in range(1, runs + 1):
            put(workspace, 10 * flow + number, flow)
    await scene.poll("changes")


def put(workspace: TinyWorkspace, run_id: int, flow: int, status: str = "InProgress") -> None:
    origin = {"id": flow, "flow": {"id": flow, "name": f"flow {flow}"}}
    workspace.put_job_group(run_id, status, wrangledDataset=origin)


def unshare(workspace: TinyWorkspace, *flows: int, refusal: tuple[int, str] = FORBIDDEN) -> None:
    """Hide flows and their runs from all lists, and refuse them by their ids."""
    table = workspace.tables["jobLibrary"]
    runs = [id_ for id_, row in table.items() if row["wrangledDataset"]["flow"]["id"] in flows]
    workspace.unlisted |= {"flows": flows, "jobLibrary": runs}
    for run_id in runs:
        workspace.faults[f"jobGroups/{run_id}.*"] = refusal
    for flow in flows:
        workspace.faults[f"flows/{flow}"] = refusal


def share_again(workspace: TinyWorkspace) -> None:
    workspace.unlisted.clear()
    workspace.faults.clear()


def unshared(scene: Scene) -> list[str]:
    return sorted(of.pipeline.id for of in scene.live_state.workspaces[NAME].unshared.values())


def why_unshared(scene: Scene, flow: int) -> str | None:
    pipeline = Pipeline(kind=PipelineKind.FLOW, id=str(flow))
    return scene.live_state.workspaces[NAME].why_unshared(pipeline)


@pytest.mark.parametrize("runs", [1, 4])
async def test_a_flow_that_is_unshared_is_doubted_alone(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock, runs: int
) -> None:
    """Also where its runs are the only ones known: all other runs go on being confirmed."""
    await begin(scene, workspace, 20, runs=runs)
    unshare(workspace, 20)
    for _ in range(3):
        await clock.advance(30)
        await scene.poll("changes")

    assert doubted(scene) == []
    assert unshared(scene) == ["20"]
    assert "403" in (why_unshared(scene, 20) or "")
    assert why_unshared(scene, KEPT) is None
    assert scene.live_state.confirmed[NAME, RunKind.JOB_GROUP] == clock.now()
    assert scene.key(201) in scene.live_state.active


async def test_a_long_run_of_an_unshared_flow_fails_no_reconciliation(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Its last write is long past, so only reconciliation misses it."""
    await begin(scene, workspace, 20)
    await clock.advance(600)
    await scene.poll("changes")
    await scene.poll("reconciliation")
    unshare(workspace, 20)
    for _ in range(4):
        await clock.advance(300)
        await scene.poll("changes")
        await scene.poll("reconciliation")

    assert (doubted(scene), unshared(scene)) == ([], ["20"])


async def test_many_flows_unshared_at_once_hide_no_other(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Each of a dozen is named, neither list is doubted, and what runs elsewhere is reported."""
    flows = range(20, 32)
    await begin(scene, workspace, *flows)
    put(workspace, 101, KEPT)
    await scene.poll("changes")
    unshare(workspace, *flows)
    for _ in range(5):
        await clock.advance(300)
        put(workspace, 101, KEPT)
        await scene.poll("changes")
        await scene.poll("reconciliation")
        with suppress(MonitorError):
            await scene.poll("names")  # not all of them are read by the first one
        assert doubted(scene) == []
    put(workspace, 101, KEPT, "Failed")
    await scene.poll("changes")

    assert unshared(scene) == [str(flow) for flow in flows]
    assert "101:failed" in await scene.run_events()


@pytest.mark.parametrize("refusal", [FORBIDDEN, NO_OBJECT])
@pytest.mark.parametrize("count", [12, 60])
async def test_many_flows_unshared_at_once_doubt_no_list_where_nothing_else_runs(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock, count: int, refusal: tuple[int, str]
) -> None:
    """More than are read at once are named one poll after another, and fire no outage."""
    flows = range(20, 20 + count)
    await begin(scene, workspace, *flows)
    unshare(workspace, *flows, refusal=refusal)
    for _ in range(4):
        await clock.advance(30)
        with suppress(MonitorError):
            await scene.poll("changes")
        assert doubted(scene) == []
    if refusal == FORBIDDEN:
        assert unshared(scene) == [str(flow) for flow in flows]
    await scene.poll("changes")
    with suppress(MonitorError):
        await scene.poll("reconciliation")

    assert doubted(scene) == []
    assert scene.live_state.confirmed[NAME, RunKind.JOB_GROUP] == clock.now()


async def test_runs_denied_with_their_flow_blind_nothing(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A workspace may deny what is no longer shared, as if it had been deleted."""
    await begin(scene, workspace, 20, runs=4)
    await clock.advance(600)
    await scene.poll("changes")
    await scene.poll("reconciliation")
    unshare(workspace, 20, refusal=NO_OBJECT)
    for _ in range(2):
        await clock.advance(300)
        await scene.poll("changes")
        await scene.poll("reconciliation")

    assert doubted(scene) == []


async def test_a_flow_unshared_while_its_list_is_cut_short_leaves_no_doubt(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Shown by its id the flow proved the list wrong; it proves nothing since that is refused."""
    await begin(scene, workspace, 20)
    workspace.unlisted["flows"] = (20,)
    with suppress(MonitorError):
        await scene.poll("names")
    assert doubted(scene) == ["flows"]
    unshare(workspace, 20)
    for _ in range(2):
        await clock.advance(300)
        with suppress(MonitorError):
            await scene.poll("names")

    assert (doubted(scene), unshared(scene)) == ([], ["20"])


async def test_a_list_is_doubted_where_the_flow_itself_is_shown(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Who sees the flow must see its runs: their list lies, whatever their ids answer."""
    await begin(scene, workspace, 20)
    unshare(workspace, 20)
    del workspace.faults["flows/20"]
    await clock.advance(30)
    with pytest.raises(MonitorError):
        await scene.poll("changes")

    assert (doubted(scene), unshared(scene)) == (["job groups"], [])


async def test_a_list_is_doubted_where_nothing_known_is_shown(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A token that sees nothing any more is no flow that is not shared."""
    await begin(scene, workspace, 20)
    unshare(workspace, 20, KEPT)
    for poll in ("changes", "names"):
        await clock.advance(30)
        with pytest.raises(MonitorError):
            await scene.poll(poll)

    assert (doubted(scene), unshared(scene)) == (["flows", "job groups"], [])


async def hide_a_run(scene: Scene, workspace: TinyWorkspace, clock: ManualClock) -> None:
    """Hide flow 20 for half an hour, in which one of its runs ends and another one fails."""
    await begin(scene, workspace, 20)
    unshare(workspace, 20)
    await clock.advance(30)
    await scene.poll("changes")
    put(workspace, 201, 20, "Complete")
    put(workspace, 202, 20, "Failed")
    unshare(workspace, 20)
    for _ in range(3):
        await clock.advance(600)
        await scene.poll("changes")
    assert unshared(scene) == ["20"]
    share_again(workspace)


@pytest.mark.parametrize("poll", ["names", "reconciliation"])
async def test_a_flow_that_is_shared_again_is_unknown_until_its_runs_are_read(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """Nothing is judged of it before a list has shown what it did while it was hidden."""
    await hide_a_run(scene, workspace, clock)
    await scene.poll(poll)
    assert unshared(scene) == ["20"]

    await clock.advance(10)
    await scene.poll("changes")
    assert unshared(scene) == []
    assert scene.live_state.confirmed[NAME, RunKind.JOB_GROUP] == clock.now()
    assert {"201:succeeded", "202:failed"} <= set(await scene.run_events())


async def test_a_flow_that_is_shared_again_stays_unknown_while_its_runs_cannot_be_read(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Neither a list that fails nor a restart forgets from where on it is to be read."""
    await hide_a_run(scene, workspace, clock)
    await scene.poll("names")
    workspace.faults["jobLibrary"] = (503, "{}")
    with pytest.raises(MonitorError):
        await scene.poll("changes")
    assert unshared(scene) == ["20"]
    await scene.restart()
    share_again(workspace)
    await scene.poll("names")
    await clock.advance(10)
    await scene.poll("changes")

    assert unshared(scene) == []
    assert {"201:succeeded", "202:failed"} <= set(await scene.run_events())


async def test_a_flow_that_is_hidden_again_is_read_from_where_it_was_hidden_first(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It was shown for a moment, in which no list of its runs was read."""
    await hide_a_run(scene, workspace, clock)
    await scene.poll("names")
    unshare(workspace, 20)
    for _ in range(2):
        await clock.advance(300)
        with suppress(MonitorError):
            await scene.poll("names")
    await scene.poll("changes")
    assert unshared(scene) == ["20"]
    share_again(workspace)
    await scene.poll("names")
    await scene.poll("changes")

    assert unshared(scene) == []
    assert {"201:succeeded", "202:failed"} <= set(await scene.run_events())


async def test_a_flow_that_is_shared_again_where_no_runs_are_listed_is_known_at_once(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """No list could show what it did, and its named runs are read by their ids."""
    await hide_a_run(scene, workspace, clock)
    status = scene.live_state.workspaces[NAME]
    scene.live_state.update_workspace(
        NAME, capabilities=status.capabilities - {Capability.LIST_CHANGES}
    )
    await scene.poll("names")

    assert unshared(scene) == []


async def test_a_flow_is_known_to_be_unshared_over_a_restart(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The next life finds it by its first lists, and doubts none of them for its sake."""
    await begin(scene, workspace, 20)
    unshare(workspace, 20)
    await clock.advance(30)
    await scene.poll("changes")
    await scene.restart()
    await scene.poll("names")
    assert unshared(scene) == ["20"]
    await clock.advance(30)
    await scene.poll("changes")

    assert (doubted(scene), unshared(scene)) == ([], ["20"])
