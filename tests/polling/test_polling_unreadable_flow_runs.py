"""Flow runs that can never be read: named after a few attempts, and held against no other."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.model.runs import RunKind
from monitor.polling.poll_loop.attempts import PollAttempts
from monitor.polling.poll_loop.poll import WhenDue
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scene
from tests.polling.tiny_workspace import FORBIDDEN, NO_OBJECT, TinyWorkspace

BROKEN = (500, "InternalServerError")
PROXY = (404, "")
FLOW_RUN = RunKind.FLOW_RUN
_POLLS = ("changes", "plan_runs", "names", "schedules", "flow_runs", "old_flow_runs")


def put(workspace: TinyWorkspace, run_id: int, status: str = "Complete") -> None:
    """Write a flow run of a flow of its own, with its job group."""
    workspace.put_flow_run(run_id, status)
    workspace.put_job_group(
        run_id,
        status,
        flowRun={"id": run_id},
        wrangledDataset={"id": run_id, "flow": {"id": run_id, "name": f"Flow {run_id}"}},
    )


async def poll_for(scene: Scene, clock: ManualClock, *, minutes: int) -> None:
    """Run the polls as a poller does: what fails is recorded, and stops no other."""
    attempts = PollAttempts(scene.context, scene.registry)
    for _ in range(minutes * 4):
        for name in _POLLS:
            poll = scene.declared[name]
            if not isinstance(poll.timing, WhenDue) or poll.timing.seconds_until_due() == 0:
                await attempts.attempt(name, poll.run, again_seconds=None)
        await clock.advance(15)


def named(scene: Scene) -> list[str]:
    return [run.id for run in scene.live_state.workspaces[NAME].unreadable]


@pytest.mark.parametrize("fault", [FORBIDDEN, BROKEN, PROXY, NO_OBJECT])
@pytest.mark.parametrize("is_old", [False, True])
async def test_an_unreadable_flow_run_is_named_and_the_first_hour_goes_on(
    unbegun: Scene,
    workspace: TinyWorkspace,
    clock: ManualClock,
    fault: tuple[int, str],
    *,
    is_old: bool,
) -> None:
    """From before or from now: "reading" ends, the others are confirmed, and its id is shown.

    One that is gone is not named: the workspace says so.
    """
    workspace.faults["flowRuns/71.*"] = fault
    for run_id in (70, 71) if is_old else (70,):
        put(workspace, run_id)
    await clock.advance(60)
    await unbegun.begin()
    if not is_old:
        put(workspace, 71)
    await poll_for(unbegun, clock, minutes=1)
    put(workspace, 72)
    await poll_for(unbegun, clock, minutes=15)

    assert unbegun.live_state.view.first_reads(NAME) == ()
    assert (NAME, FLOW_RUN) in unbegun.live_state.complete
    assert named(unbegun) == ([] if fault is NO_OBJECT else ["71"])


async def test_the_only_flow_run_is_named_and_proves_nothing(
    unbegun: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Where no flow run can be read at all, none counts as confirmed, and nothing is "reading"."""
    put(workspace, 70)
    await clock.advance(60)
    await unbegun.begin()
    workspace.faults["flowRuns/.*"] = BROKEN
    for run_id in (71, 72):
        put(workspace, run_id)
    await poll_for(unbegun, clock, minutes=15)

    assert unbegun.live_state.view.first_reads(NAME) == ()
    assert sorted(named(unbegun)) == ["70", "71", "72"]
    confirmed = unbegun.live_state.confirmed[NAME, FLOW_RUN]
    assert clock.now() - confirmed >= timedelta(minutes=15)
    assert (NAME, FLOW_RUN) not in unbegun.live_state.complete


async def test_what_can_be_read_again_is_no_longer_named(
    unbegun: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It is tried on, less and less often, and its end is published."""
    await unbegun.begin()
    put(workspace, 71)
    workspace.faults["flowRuns/71.*"] = BROKEN
    await poll_for(unbegun, clock, minutes=2)
    assert named(unbegun) == ["71"]
    workspace.faults.clear()
    await poll_for(unbegun, clock, minutes=6)

    assert named(unbegun) == []
    assert (await unbegun.run_events(FLOW_RUN))[-1] == "71:succeeded"
