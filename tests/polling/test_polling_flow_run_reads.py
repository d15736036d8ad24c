"""What the ends of flow runs cost: requests are counted, and none is saved where doubt is left."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from monitor.model.runs import RunKind, Source, Status
from monitor.workspace.priority import Priority
from monitor.workspace.settings import WorkspaceSettings
from tests.clocks import ManualClock
from tests.polling.conftest import Scene, until
from tests.polling.tiny_workspace import TinyWorkspace

FLOW_RUN = RunKind.FLOW_RUN
RECIPES = (45, 46)
DEFAULT = WorkspaceSettings(name="marketing", url="http://localhost")


def put_run(
    workspace: TinyWorkspace,
    run_id: int,
    *,
    recipes: tuple[int, ...] = RECIPES,
    part: str = "Complete",
    status: str | None = "Complete",
    ranfor: str = "recipe",
) -> None:
    """Write a flow run and a job group for each of its recipes; ``part`` is what the first is."""
    if status is not None:
        workspace.put_flow_run(run_id, status)
    for place, recipe in enumerate(recipes):
        workspace.put_job_group(
            10 * run_id + place,
            part if place == 0 else "Complete",
            flowRun={"id": run_id},
            ranfor=ranfor,
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


async def usual(scene: Scene, workspace: TinyWorkspace, clock: ManualClock) -> None:
    """Let three alike runs of the flow run and end, each of which is read."""
    for run_id in (71, 72, 73):
        await run_once(scene, workspace, clock, run_id)


async def end_usual(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock, run_id: int, **fields: Any
) -> None:
    """Let the job groups of a flow run end, and poll until its end is known from them."""
    put_run(workspace, run_id, part="InProgress", status="InProgress")
    await poll_all(scene)
    await clock.advance(60)
    put_run(workspace, run_id, **fields)
    await poll_all(scene)
    await clock.advance(5)
    await scene.polls.changes.poll()
    await scene.poll("flow_runs")


async def test_a_usual_end_takes_no_read(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """After three alike runs, the list of job groups shows the end, marked as derived from them."""
    await usual(scene, workspace, clock)
    finished = clock.now() + timedelta(seconds=60)
    await end_usual(scene, workspace, clock, 74)

    assert reads(workspace, 74) == 0
    state = await scene.state(74, FLOW_RUN)
    assert state is not None
    assert (state.status, state.ended_by) == (Status.SUCCEEDED, Source.PARTS)
    assert (state.finished_at, "finished_at" in state.approximate) == (finished, True)


async def test_nothing_is_derived_before_a_list_that_began_after_the_last_part(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """What follows the last known part is seen first; without a new list the status is read."""
    await usual(scene, workspace, clock)
    put_run(workspace, 74, status="InProgress")
    await poll_all(scene)
    await clock.advance(59)
    await scene.poll("flow_runs")
    assert (reads(workspace, 74), (await scene.run_events(FLOW_RUN))[-1]) == (0, "74:started")

    await clock.advance(2)
    await scene.poll("flow_runs")
    assert reads(workspace, 74) == 1


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
    scene: Scene,
    workspace: TinyWorkspace,
    clock: ManualClock,
    recipes: tuple[int, ...],
    part: str,
    status: str,
    end: str,
) -> None:
    """A part that is not complete, new or repeated: the status decides, at once."""
    await usual(scene, workspace, clock)
    put_run(workspace, 74, recipes=recipes, part=part, status=status)
    await poll_all(scene)

    assert reads(workspace, 74) >= 1
    assert (await scene.run_events(FLOW_RUN))[-1] == end


async def test_the_next_part_is_waited_for_before_a_read(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Recipes that run one after the other cost no read between them; one that never comes does."""
    await usual(scene, workspace, clock)
    put_run(workspace, 74, recipes=(45,), status="InProgress")
    await poll_all(scene)
    await clock.advance(14)
    await poll_all(scene)
    assert reads(workspace, 74) == 0

    put_run(workspace, 74)
    for _ in range(2):
        await poll_all(scene)
        await clock.advance(5)
    assert (reads(workspace, 74), (await scene.run_events(FLOW_RUN))[-1]) == (0, "74:succeeded")

    put_run(workspace, 75, recipes=(45,))
    await poll_all(scene)
    await clock.advance(15)
    await poll_all(scene)
    assert (reads(workspace, 75), (await scene.run_events(FLOW_RUN))[-1]) == (2, "75:succeeded")


async def test_a_gap_between_parts_is_read_once_for_a_flow(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Before any run of the flow is complete, one that was unfinished shows that more will come."""
    put_run(workspace, 71, recipes=(45,), status="InProgress")
    await poll_all(scene)
    put_run(workspace, 71, status="InProgress")
    workspace.put_job_group(711, "InProgress")
    for run_id in (72, 73):
        put_run(workspace, run_id, recipes=(45,), status="InProgress")
    for _ in range(2):
        await poll_all(scene)
        await clock.advance(5)

    assert [reads(workspace, run_id) for run_id in (71, 72, 73)] == [1, 0, 0]


async def test_a_success_that_ends_a_failure_is_read(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """What resolves an alert is what the workspace says, never what was derived."""
    await usual(scene, workspace, clock)
    put_run(workspace, 74, part="Failed", status="Failed")
    await poll_all(scene)
    await end_usual(scene, workspace, clock, 75)

    assert reads(workspace, 75) == 1
    state = await scene.state(75, FLOW_RUN)
    assert state is not None
    assert state.ended_by is Source.POLL


async def test_a_flow_run_of_a_plan_is_read(scene: Scene, workspace: TinyWorkspace) -> None:
    """A plan may be canceled after the last job group, which shows nothing of it."""
    for run_id in (71, 72, 73, 74):
        put_run(workspace, run_id, ranfor="plan")
        await poll_all(scene)

    assert reads(workspace, 74) == 1


async def test_a_derived_end_is_confirmed_when_there_is_room(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It is read once, in the last class of the request budget; a true end makes no event."""
    await usual(scene, workspace, clock)
    await end_usual(scene, workspace, clock, 74)
    events = await scene.run_events()
    poll = scene.declared["derived_flow_runs"]
    assert poll.priority is Priority.INVENTORY

    await clock.advance(1)
    for _ in range(3):
        await poll.run()
        await clock.advance(60)
    assert (reads(workspace, 74), await scene.run_events()) == (1, events)
    state = await scene.state(74, FLOW_RUN)
    assert state is not None
    assert state.ended_by is Source.POLL


async def test_a_wrong_derived_end_is_corrected(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """What the workspace says afterwards stands, with the true end's own event, after a restart."""
    await usual(scene, workspace, clock)
    await end_usual(scene, workspace, clock, 74, status="Canceled")
    assert (await scene.run_events(FLOW_RUN))[-1] == "74:succeeded"
    await scene.restart()
    await clock.advance(60)
    await scene.poll("derived_flow_runs")

    assert (await scene.run_events(FLOW_RUN))[-2:] == ["74:corrected", "74:canceled"]


async def test_a_part_that_appears_after_a_derived_end_is_waited_for(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A flow with a new recipe: its failure corrects the end, and no request waits for room."""
    await usual(scene, workspace, clock)
    await end_usual(scene, workspace, clock, 74, status="InProgress")
    assert (await scene.run_events(FLOW_RUN))[-1] == "74:succeeded"
    late = {"id": 47, "flow": {"id": 11, "name": "Sales"}}
    workspace.put_job_group(749, "InProgress", flowRun={"id": 74}, wrangledDataset=late)
    await poll_all(scene)
    await clock.advance(600)
    await scene.poll("derived_flow_runs")
    assert reads(workspace, 74) == 0

    workspace.put_job_group(749, "Failed")
    workspace.put_flow_run(74, "Failed")
    await scene.polls.changes.poll()
    await scene.poll("flow_runs")

    assert (await scene.run_events(FLOW_RUN))[-2:] == ["74:corrected", "74:failed"]
    state = await scene.state(74, FLOW_RUN)
    assert state is not None
    assert (state.finished_at, state.failed_part is not None) == (workspace.now(), True)


async def test_confirmations_take_a_twentieth_of_the_budget(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Of many derived ends one is read at a time, however many wait."""
    await usual(scene, workspace, clock)
    for run_id in range(100, 130):
        put_run(workspace, run_id, status="Complete")
    await poll_all(scene)
    await clock.advance(5)
    await scene.polls.changes.poll()
    await scene.poll("flow_runs")
    assert workspace.count("flowRuns/1[0-9]{2}/.*") == 0
    per_minute = scene.client.settings.requests_per_minute * 0.05
    for number in range(1, 11):
        await clock.advance(60 / per_minute)
        await scene.poll("derived_flow_runs")
        assert workspace.count("flowRuns/1[0-9]{2}/.*") == number


async def test_a_thousand_flow_runs_in_a_minute_need_five_minutes_of_the_budget(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """All requests until every end is known: no more than 120 a minute are in five minutes."""
    before = len(workspace.requests)
    runs = range(1_000, 2_000)
    for run_id in runs:
        put_part(workspace, run_id, "InProgress")
        workspace.put_flow_run(run_id, "InProgress")
    await scene.polls.changes.poll()
    await scene.poll("flow_runs")
    for second in range(0, 60, 5):
        await clock.advance(5)
        for run_id in runs[second * 1_000 // 60 : (second + 5) * 1_000 // 60]:
            put_part(workspace, run_id, "Complete")
            workspace.put_flow_run(run_id, "Complete")
        await scene.polls.changes.poll()
        await scene.poll("flow_runs")
    for _ in range(2):
        await clock.advance(5)
        await scene.polls.changes.poll()
        await scene.poll("flow_runs")

    ends = [event for event in await scene.run_events(FLOW_RUN) if event.endswith(":succeeded")]
    assert len(ends) == len(runs)
    assert len(workspace.requests) - before <= 5 * DEFAULT.requests_per_minute
    assert workspace.count("flowRuns/.*") <= 100


def put_part(workspace: TinyWorkspace, run_id: int, status: str) -> None:
    """Write the only job group of a flow run of one of 20 flows."""
    flow = run_id % 20
    workspace.put_job_group(
        run_id,
        status,
        flowRun={"id": run_id},
        wrangledDataset={"id": 500 + flow, "flow": {"id": 11 + flow, "name": f"Flow {flow}"}},
    )


async def test_a_part_that_appears_during_the_read_is_waited_for(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A status that ran ahead of a new job group ends nothing, whatever earlier runs had."""
    await run_once(scene, workspace, clock, 71)
    put_run(workspace, 72)
    await scene.polls.changes.poll()
    hold = workspace.holds["flowRuns/72/status"] = asyncio.Event()
    reading = asyncio.create_task(scene.polls.flow_runs.poll(scene.polls.job_groups.handle))
    await until(lambda: workspace.count("flowRuns/72/status") == 1)
    put_run(workspace, 72, recipes=(45, 46, 47))
    workspace.put_job_group(722, "InProgress")
    await scene.polls.changes.poll()
    hold.set()
    await reading
    assert "72:succeeded" not in await scene.run_events(FLOW_RUN)
    assert scene.polls.flow_runs.seconds_until_due() is None

    workspace.put_job_group(722, "Failed")
    workspace.put_flow_run(72, "Failed")
    await poll_all(scene)
    assert (await scene.run_events(FLOW_RUN))[-1] == "72:failed"


async def test_a_clock_that_is_set_back_delays_no_end(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Lists that seem to be older than the last job group lead to a read after a minute."""
    await usual(scene, workspace, clock)
    put_run(workspace, 74)
    await poll_all(scene)
    workspace.offset -= timedelta(hours=1)
    for _ in range(13):
        await clock.advance(5)
        await poll_all(scene)

    assert reads(workspace, 74) == 1
    assert (await scene.run_events(FLOW_RUN))[-1] == "74:succeeded"
