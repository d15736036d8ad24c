"""What the ends of flow runs cost: requests are counted, and none is saved where doubt is left."""

from __future__ import annotations

from monitor.model.runs import RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import Scene
from tests.polling.tiny_workspace import TinyWorkspace

FLOW_RUN = RunKind.FLOW_RUN
RECIPES = (45, 46)


def put_run(
    workspace: TinyWorkspace,
    run_id: int,
    *,
    recipes: tuple[int, ...] = RECIPES,
    part: str = "Complete",
    status: str | None = "Complete",
) -> None:
    """Write a flow run and a job group for each of its recipes; ``part`` is what the first is."""
    if status is not None:
        workspace.put_flow_run(run_id, status)
    for place, recipe in enumerate(recipes):
        workspace.put_job_group(
            10 * run_id + place,
            part if place == 0 else "Complete",
            flowRun={"id": run_id},
            wrangledDataset={"id": recipe, "flow": {"id": 11, "name": "Sales"}},
        )


async def poll_all(scene: Scene) -> None:
    """Poll for changes, then read every flow run whose time has come."""
    await scene.polls.changes.poll()
    await scene.polls.flow_runs.poll(scene.polls.job_groups.handle)


async def run_once(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock, run_id: int
) -> tuple[int, list[str]]:
    """Let a flow run run and end; return the requests about it and its last event."""
    put_run(workspace, run_id, part="InProgress", status="InProgress")
    await poll_all(scene)
    await clock.advance(60)
    put_run(workspace, run_id)
    await poll_all(scene)
    return reads(workspace, run_id), (await scene.run_events(FLOW_RUN))[-1:]


def reads(workspace: TinyWorkspace, run_id: int) -> int:
    return workspace.count(f"flowRuns/{run_id}(/.*)?")


async def test_the_end_takes_one_read(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A flow whose runs are alike costs two requests for the first of them and one for others."""
    costs = [await run_once(scene, workspace, clock, run_id) for run_id in (71, 72, 73)]

    assert costs == [(2, ["71:succeeded"]), (1, ["72:succeeded"]), (1, ["73:succeeded"])]
    assert workspace.count("flowRuns/[0-9]+") == 0


async def test_a_part_that_is_missing_or_new_is_searched_for(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """With other recipes than before, the flow run's own list is read and shows the late one."""
    await run_once(scene, workspace, clock, 71)
    put_run(workspace, 72, recipes=(45,))
    await scene.polls.changes.poll()
    put_run(workspace, 72, part="Complete")
    workspace.put_job_group(721, "InProgress")
    await scene.polls.flow_runs.poll(scene.polls.job_groups.handle)
    assert "72:succeeded" not in await scene.run_events(FLOW_RUN)

    workspace.put_job_group(721, "Failed")
    workspace.put_flow_run(72, "Failed")
    await clock.advance(61)
    await poll_all(scene)
    assert (await scene.run_events(FLOW_RUN))[-1] == "72:failed"


async def test_a_status_that_its_parts_do_not_come_to_is_doubted(
    scene: Scene, workspace: TinyWorkspace
) -> None:
    """Complete with a failed recipe, canceled with none: the list is read, the status believed."""
    put_run(workspace, 71)
    await poll_all(scene)
    for run_id, part, status, end in (
        (72, "Failed", "Complete", "72:succeeded"),
        (73, "Complete", "Canceled", "73:canceled"),
        (74, "Complete", "Failed", "74:failed"),
    ):
        put_run(workspace, run_id, part=part, status=status)
        await poll_all(scene)
        assert (await scene.run_events(FLOW_RUN))[-1] == end
        assert workspace.count(f"flowRuns/{run_id}/jobGroups") == 1


async def test_a_status_that_lags_is_read_alone(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """While only the status is behind, its job groups are not read again with it."""
    await run_once(scene, workspace, clock, 71)
    put_run(workspace, 72, status="InProgress")
    await poll_all(scene)
    await clock.advance(1)
    await poll_all(scene)
    workspace.put_flow_run(72, "Complete")
    await clock.advance(2)
    await poll_all(scene)

    assert (await scene.run_events(FLOW_RUN))[-1] == "72:succeeded"
    assert (reads(workspace, 72), workspace.count("flowRuns/72/status")) == (3, 3)
