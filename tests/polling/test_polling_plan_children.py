"""What a plan run has started is linked to it while it runs, whenever the workspace names it."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import TryLaterError
from monitor.model.events import RunEvent
from monitor.model.observations import Observation
from monitor.model.runs import RunKind, Source, Status, Trigger
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.plan_rows import (
    FLOW,
    PLAN,
    SNAPSHOT,
    begin_plan_run,
    node,
    plan_run_of,
    put_plan,
    put_snapshot,
)
from tests.polling.tiny_workspace import FORBIDDEN, OVERLOADED, TinyWorkspace, stamp

FULL = f"plans/{SNAPSHOT}/full"


async def read_when_due(scenario: Scenario, clock: ManualClock, seconds: float) -> list[float]:
    """Run the poll whenever it is due for so long; return after which times it has read."""
    began, reads = clock.monotonic(), []
    while (wait := scenario.polls.plan_children.seconds_until_due()) is not None:
        if clock.monotonic() + wait > began + seconds:
            break
        await clock.advance(wait)
        with suppress(TryLaterError):
            await scenario.polls.plan_children.poll()
        reads.append(round(clock.monotonic() - began, 1))
    await clock.advance(began + seconds - clock.monotonic())
    return reads


async def test_a_part_is_linked_while_its_plan_runs(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Job group and flow run name the plan run before any of the three has ended.

    The record shows nothing else of them, so they are confirmed as of their own last read.
    """
    await begin_plan_run(scenario, workspace)
    workspace.put_flow_run(71)
    workspace.put_job_group(1, flowRun={"id": 71}, ranfor="plan")
    put_snapshot(workspace, {7: [1]})
    await scenario.polls.changes.poll()
    assert scenario.polls.plan_children.seconds_until_due() == 0
    confirmed_at = scenario.live_state.active[scenario.key(1)].confirmed_at
    await clock.advance(1)
    await scenario.polls.plan_children.poll()

    assert await plan_run_of(scenario, 1) == "7"
    assert await plan_run_of(scenario, 71, RunKind.FLOW_RUN) == "7"
    active = scenario.live_state.active
    assert {
        active[scenario.key(7, RunKind.PLAN_RUN)].run.status,
        active[scenario.key(1)].run.status,
    } == {Status.RUNNING}
    assert active[scenario.key(1)].run.trigger is Trigger.PLAN
    assert active[scenario.key(1)].confirmed_at == confirmed_at
    assert scenario.polls.plan_children.seconds_until_due() is None


async def test_the_nodes_of_a_snapshot_are_read_once(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Without a part there is nothing to read, for any run of the snapshot, and after a restart."""
    await begin_plan_run(scenario, workspace)
    await begin_plan_run(scenario, workspace, 8)
    await scenario.restart()
    await begin_plan_run(scenario, workspace, 9)
    workspace.put_job_group(1, wrangledDataset={"id": 46, "flow": {"id": 12}})
    await scenario.polls.changes.poll()

    assert scenario.polls.plan_children.seconds_until_due() is None
    assert workspace.count(FULL) == 1


async def test_parts_that_appear_together_cost_one_read(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Whatever the number of parts and of runs of the plan."""
    for run_id in (7, 8):
        await begin_plan_run(scenario, workspace, run_id)
    for number in range(1, 21):
        workspace.put_job_group(number, ranfor="plan")
    put_snapshot(workspace, {7: range(1, 11), 8: range(11, 21)})
    before = workspace.count(FULL)
    await scenario.polls.changes.poll()
    await scenario.polls.plan_children.poll()

    assert workspace.count(FULL) == before + 1
    assert {await plan_run_of(scenario, number) for number in range(1, 11)} == {"7"}
    assert {await plan_run_of(scenario, number) for number in range(11, 21)} == {"8"}


async def test_a_part_that_is_named_before_it_is_seen_is_linked_at_once(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Its first event already carries the plan run, and nothing more is read for it."""
    await begin_plan_run(scenario, workspace)
    put_snapshot(workspace, {7: [1, 2]})
    workspace.put_job_group(1, ranfor="plan")
    await scenario.polls.changes.poll()
    await scenario.polls.plan_children.poll()
    reads = workspace.count(FULL)
    workspace.put_flow_run(72)
    workspace.put_job_group(2, ranfor="plan", flowRun={"id": 72})
    await scenario.polls.changes.poll()

    events = [recorded.event for recorded in await scenario.bus.events(after=0, limit=100)]
    parents = {
        (event.run.key.id, event.run.parents.plan_run)
        for event in events
        if isinstance(event, RunEvent) and event.run.key.id in ("2", "72")
    }
    assert parents == {("2", "7"), ("72", "7")}
    assert scenario.polls.plan_children.seconds_until_due() is None
    assert workspace.count(FULL) == reads


async def test_a_record_that_fills_late_is_read_again_with_growing_waits(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """While the part is active ever more rarely, and for the last time a while after its end."""
    await begin_plan_run(scenario, workspace)
    workspace.put_job_group(1, ranfor="plan")
    await scenario.polls.changes.poll()
    assert await read_when_due(scenario, clock, 1_000) == [0, 2, 6, 14, 30, 62, 126, 254, 510, 810]

    workspace.put_job_group(1, "Complete", ranfor="plan")
    await scenario.polls.changes.poll()
    assert await read_when_due(scenario, clock, 1_000) == [0, 2, 6, 14, 15]
    assert scenario.polls.plan_children.seconds_until_due() is None


async def test_a_record_that_fills_at_the_end_links_all_parts(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Parts that ended long before are linked after the plan run's end, also seconds later."""
    await begin_plan_run(scenario, workspace)
    for number in (1, 2):
        workspace.put_job_group(number, "Complete", ranfor="plan")
    await scenario.polls.changes.poll()
    await read_when_due(scenario, clock, 600)
    workspace.put_plan_run(7, "Complete", finishedAt=stamp(workspace.now()))
    await scenario.polls.plan_runs.poll()
    assert await read_when_due(scenario, clock, 4) == [0, 2]
    put_snapshot(workspace, {7: [1, 2]})
    assert await read_when_due(scenario, clock, 100) == [2]

    assert [await plan_run_of(scenario, number) for number in (1, 2)] == ["7", "7"]
    assert scenario.polls.plan_children.seconds_until_due() is None


async def test_a_plan_run_without_children_is_read_until_the_wait_is_over(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """After its end a record that names nothing is read again for `link_wait_seconds`."""
    await begin_plan_run(scenario, workspace)
    workspace.put_plan_run(7, "Complete", finishedAt=stamp(workspace.now()))
    await scenario.polls.plan_runs.poll()

    assert await read_when_due(scenario, clock, 3_600) == [0, 2, 6, 14, 15]
    await scenario.polls.plan_runs.poll()
    assert scenario.polls.plan_children.seconds_until_due() is None


async def test_a_stranger_is_not_linked_and_costs_a_bounded_number_of_reads(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A run of the plan's flow that a person started stays without a plan run."""
    await begin_plan_run(scenario, workspace)
    put_snapshot(workspace, {7: [1]})
    for number in (1, 2):
        workspace.put_job_group(number, "Complete")
    await scenario.polls.changes.poll()

    assert await read_when_due(scenario, clock, 3_600) == [0, 2, 6, 14, 15]
    assert (await plan_run_of(scenario, 1), await plan_run_of(scenario, 2)) == ("7", None)


async def test_runs_from_before_are_no_parts(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """A run that was created earlier cannot have been started by it, so nothing is read."""
    earlier = stamp(workspace.now() - timedelta(seconds=5))
    await begin_plan_run(scenario, workspace)
    workspace.put_job_group(1, ranfor="plan", createdAt=earlier)
    await scenario.polls.changes.poll()

    assert scenario.polls.plan_children.seconds_until_due() is None


async def test_unlinked_parts_are_resumed(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """Parts that were active or ended while nothing was read are linked after it."""
    await begin_plan_run(scenario, workspace)
    workspace.put_job_group(1, "InProgress", ranfor="plan")
    workspace.put_job_group(2, "Complete", ranfor="plan")
    await scenario.polls.changes.poll()
    put_snapshot(workspace, {7: [1, 2]})
    await scenario.restart()
    await scenario.poll("reconciliation")
    assert scenario.polls.plan_children.seconds_until_due() == 0
    await scenario.polls.plan_children.poll()

    assert [await plan_run_of(scenario, number) for number in (1, 2)] == ["7", "7"]


async def test_a_restart_links_what_ended(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """A plan run that ended just before the stop is read after it."""
    await begin_plan_run(scenario, workspace)
    workspace.put_job_group(1, "Complete", ranfor="plan")
    await scenario.polls.changes.poll()
    workspace.put_plan_run(7, "Complete", finishedAt=stamp(workspace.now()))
    await scenario.polls.plan_runs.poll()
    put_snapshot(workspace, {7: [1]})
    await scenario.restart()
    await scenario.polls.plan_runs.poll()
    await scenario.polls.plan_children.poll()

    assert await plan_run_of(scenario, 1) == "7"


async def test_a_plan_run_that_ended_unseen_is_let_go(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """One that was lost, and one whose end a callback showed first, are not followed forever."""
    await begin_plan_run(scenario, workspace, 7)
    await begin_plan_run(scenario, workspace, 8)
    put_snapshot(workspace, {8: [1]})
    workspace.put_job_group(1, ranfor="plan")
    await scenario.polls.changes.poll()
    await scenario.polls.plan_children.poll()
    gone = observation(scenario, 7, is_gone=True)
    reported = observation(scenario, 8, native_status="Complete")
    await scenario.observer.observe((gone, reported))
    workspace.put_plan_run(8, "Complete", finishedAt=stamp(workspace.now()))
    await scenario.polls.plan_runs.poll()
    await begin_plan_run(scenario, workspace, 9)
    await read_when_due(scenario, clock, 60)

    followed = scenario.polls.plan_children.is_followed
    assert [followed(run_id) for run_id in ("7", "8", "9")] == [False, False, True]


async def test_parts_of_a_plan_whose_nodes_were_not_known_are_found(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A part that no word marks as a plan's, and that was observed first, is read for, too."""
    put_plan(workspace)
    put_snapshot(workspace)
    workspace.full_plans[PLAN] = {**workspace.full_plans[SNAPSHOT], "id": PLAN}
    workspace.put_plan_run(7, plan={"id": PLAN})
    await scenario.polls.plan_runs.poll()
    workspace.put_job_group(1)
    await scenario.polls.changes.poll()

    assert await read_when_due(scenario, clock, 10) == [0, 0, 2, 6]


async def test_a_plan_that_contains_itself_is_read_no_more_than_another(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Nodes that run plans, in a circle, add no read, and no run becomes its own parent."""
    put_snapshot(workspace, {7: [1]})
    nodes = workspace.full_plans[SNAPSHOT]["planNodes"]["data"]
    for plan_id in (PLAN, SNAPSHOT, 14):
        nodes.append(
            {
                "id": 60 + plan_id,
                "taskType": "plan",
                "task": {"plan": {"id": plan_id}},
                "planTaskSnapshotRuns": {
                    "data": [
                        {
                            "id": plan_id,
                            "planSnapshotRun": {"id": 7},
                            "planFlowTaskRunResults": {"data": [{"planSnapshotRun": {"id": 7}}]},
                        }
                    ]
                },
            }
        )
    await begin_plan_run(scenario, workspace)
    workspace.put_job_group(1, ranfor="plan")
    await scenario.polls.changes.poll()
    await read_when_due(scenario, clock, 3_600)

    assert await plan_run_of(scenario, 1) == "7"
    assert await plan_run_of(scenario, 7, RunKind.PLAN_RUN) is None
    assert workspace.count("plans/.*/full") == 2


async def test_a_run_that_names_its_plan_is_found_in_the_newest_snapshot(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Where runs name the plan itself, whose record shows no runs, its snapshot is read too."""
    put_plan(workspace)
    workspace.full_plans[PLAN] = {
        "id": PLAN,
        "planNodes": {"data": [node(55, FLOW)]},
        "planSnapshots": {"data": [{"id": 99}, {"id": SNAPSHOT}]},
    }
    put_snapshot(workspace, {7: [1]})
    workspace.put_plan_run(7, plan={"id": PLAN})
    await scenario.polls.plan_runs.poll()
    workspace.put_job_group(1, ranfor="plan")
    await scenario.polls.changes.poll()
    await scenario.polls.plan_children.poll()

    assert await plan_run_of(scenario, 1) == "7"


@pytest.mark.parametrize("fault", [FORBIDDEN, OVERLOADED])
async def test_a_plan_that_cannot_be_read_costs_few_reads(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, fault: tuple[int, str]
) -> None:
    """However often its parts appear, and it is linked when it can be read again."""
    await begin_plan_run(scenario, workspace)
    workspace.faults[FULL] = fault
    reads = workspace.count(FULL)
    for number in range(1, 61):
        workspace.put_job_group(number, ranfor="plan")
        await scenario.polls.changes.poll()
        await scenario.polls.plan_runs.poll()
        await read_when_due(scenario, clock, 1)
    assert workspace.count(FULL) - reads <= (2 if fault is FORBIDDEN else 6)

    workspace.faults.clear()
    put_snapshot(workspace, {7: range(1, 61)})
    await clock.advance(scenario.settings.reconcile_seconds)
    await scenario.polls.plan_runs.poll()
    workspace.put_plan_run(7, "Complete", finishedAt=stamp(workspace.now()))
    await scenario.polls.plan_runs.poll()
    await read_when_due(scenario, clock, 100)
    assert {await plan_run_of(scenario, number) for number in range(1, 61)} == {"7"}


async def test_nothing_is_read_where_records_are_not_served(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Without the capability parts stay as they are and cost nothing."""
    await begin_plan_run(scenario, workspace)
    reads = workspace.count(FULL)
    can = scenario.live_state.workspaces[NAME].capabilities - {Capability.MAP_PLAN_SNAPSHOTS}
    scenario.live_state.update_workspace(NAME, capabilities=can)
    workspace.put_job_group(1, ranfor="plan")
    await scenario.polls.changes.poll()
    assert await scenario.polls.plan_children.poll() is False
    workspace.put_plan_run(7, "Complete", finishedAt=stamp(workspace.now()))
    await scenario.polls.plan_runs.poll()
    assert await scenario.polls.plan_children.poll() is False

    assert workspace.count(FULL) == reads
    assert scenario.polls.plan_children.seconds_until_due() is None


def observation(scenario: Scenario, run_id: int, **shown: Any) -> Observation:
    return Observation(
        key=scenario.key(run_id, RunKind.PLAN_RUN),
        source=Source.RECONCILIATION,
        observed_at=scenario.clock.now(),
        **shown,
    )


async def test_a_plan_run_of_an_unknown_word_works_as_soon_as_it_has_a_child(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Its record names what it has started; a plan run that is reported as created waits."""
    await begin_plan_run(scenario, workspace)
    for run_id, word in ((8, "Hibernating"), (9, "Created")):
        workspace.put_plan_run(run_id, word, plan={"id": SNAPSHOT}, startedAt=None)
    await scenario.polls.plan_runs.poll()
    for number in (1, 2):
        workspace.put_job_group(number, ranfor="plan")
    put_snapshot(workspace, {8: [1], 9: [2]})
    await scenario.polls.changes.poll()
    await clock.advance(1)
    await scenario.polls.plan_children.poll()

    assert await scenario.run_events(RunKind.PLAN_RUN) == [
        "7:queued", "7:started", "8:queued", "9:queued", "8:started",
    ]  # fmt: skip
