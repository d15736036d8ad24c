"""Ends that the workspace changes: read again where they change, and published once each."""

from __future__ import annotations

import pytest

from monitor.model.runs import RunKind, Status
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario, until
from tests.polling.job_record_readers import readers
from tests.polling.plan_rows import SNAPSHOT, begin_plan_run, put_snapshot
from tests.polling.tiny_workspace import TinyWorkspace

FLOW_RUN, PLAN_RUN = RunKind.FLOW_RUN, RunKind.PLAN_RUN
BEGUN = ["queued", "started"]


async def transitions(scenario: Scenario, kind: RunKind, run_id: int) -> list[str]:
    """Return what was published of a run, without what became known of its ends later."""
    events = [text.partition(":") for text in await scenario.run_events(kind)]
    return [what for id_, _, what in events if id_ == str(run_id) and what != "detailed"]


async def poll_all(scenario: Scenario) -> None:
    for name in ("changes", "plan_runs", "flow_runs", "plan_children"):
        await scenario.poll(name)


@pytest.mark.parametrize("kind", [RunKind.JOB_GROUP, PLAN_RUN])
async def test_a_changed_end_is_published_and_so_is_the_change_back(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, kind: RunKind
) -> None:
    """Complete to Failed and back, each seen by the poll that shows it."""
    put = workspace.put_plan_run if kind is PLAN_RUN else workspace.put_job_group
    for word in ("InProgress", "Complete", "Failed", "Complete"):
        put(1, word)
        for _ in range(3):
            await poll_all(scenario)
            await clock.advance(10)

    changes = ["corrected", "failed", "corrected", "succeeded"]
    assert await transitions(scenario, kind, 1) == [*BEGUN, "succeeded", *changes]
    state = await scenario.state(1, kind)
    assert state is not None
    assert (state.status, state.corrections) == (Status.SUCCEEDED, 2)


async def test_a_flow_run_is_read_again_where_one_of_its_job_groups_changes(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Flow runs cannot be listed: what they consist of shows that their end may be another."""
    workspace.put_flow_run(71, "Complete")
    workspace.put_job_group(1, "Complete", flowRun={"id": 71})
    await poll_all(scenario)
    assert await transitions(scenario, FLOW_RUN, 71) == [*BEGUN, "succeeded"]

    await clock.advance(10)
    workspace.put_flow_run(71, "Failed")
    workspace.put_job_group(1, "Failed", flowRun={"id": 71})
    await poll_all(scenario)

    assert await transitions(scenario, FLOW_RUN, 71) == [*BEGUN, "succeeded", "corrected", "failed"]
    reads = workspace.count("flowRuns/71/status")
    await clock.advance(600)
    await poll_all(scenario)
    assert workspace.count("flowRuns/71/status") == reads


async def test_job_records_are_read_again_for_the_other_end(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A success that becomes a failure says why."""
    workspace.put_job_group(1, "Complete")
    workspace.put_job(1)
    async with readers(scenario):
        await poll_all(scenario)
        await until(lambda: scenario.polls.details.waiting == 0)
        await clock.advance(10)
        workspace.jobs.clear()
        workspace.put_job(1, "Failed", errorMessage="no such column")
        workspace.put_job_group(1, "Failed")
        await poll_all(scenario)
        await until(lambda: scenario.polls.details.waiting == 0)

    state = await scenario.state(1)
    assert state is not None
    assert (state.detailed, state.error) == (True, "no such column")


@pytest.mark.parametrize("is_written", [True, False])
async def test_answers_of_two_servers_that_disagree_do_not_flood(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, *, is_written: bool
) -> None:
    """With times of writes the newer one stands; without, a few changes and then one an hour.

    What is still reported half an hour later is the last word.
    """
    older = dict(workspace.put_job_group(1, "Complete"))
    await clock.advance(1)
    newer = dict(workspace.put_job_group(1, "Failed"))
    if not is_written:
        older["updatedAt"] = newer["updatedAt"]
    for number in range(40):
        workspace.tables["jobLibrary"][1] = (newer, older)[number % 2]
        await poll_all(scenario)
        await clock.advance(1)

    seen = await transitions(scenario, RunKind.JOB_GROUP, 1)
    assert seen.count("corrected") == (0 if is_written else 3)
    workspace.tables["jobLibrary"][1] = newer if is_written else older
    for _ in range(4):
        await clock.advance(600)
        await scenario.poll("relist")
    state = await scenario.state(1)
    assert state is not None
    assert state.status is (Status.FAILED if is_written else Status.SUCCEEDED)


def put_parts(workspace: TinyWorkspace, *words: str, **fields: object) -> None:
    """Write job groups 1, 2, ... of flow run 71, each of a recipe of its own."""
    fields["flowRun"] = {"id": 71}
    for number, word in enumerate(words, start=1):
        recipe = {"id": number, "recipe": {"id": number, "name": f"recipe {number}"}}
        workspace.put_job_group(number, word, wrangledDataset=recipe, **fields)
        workspace.jobs.pop(number, None)
        workspace.put_job(number, word, errorMessage=f"{word} {number}")


async def poll_until_explained(scenario: Scenario, clock: ManualClock) -> None:
    async with readers(scenario):
        for _ in range(4):
            await poll_all(scenario)
            await until(lambda: scenario.polls.details.waiting == 0)
            await scenario.poll("reasons")
            await clock.advance(10)


@pytest.mark.parametrize("status", ["Complete", "Failed"])
async def test_a_part_whose_failure_is_taken_back_explains_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, status: str
) -> None:
    """A success hides it no more, another part is the reason of a failure; both are published."""
    workspace.put_flow_run(71, status)
    put_parts(workspace, "Failed", "Complete")
    await poll_until_explained(scenario, clock)
    state = await scenario.state(71, FLOW_RUN)
    assert state is not None
    assert state.failed_part is not None
    assert state.failed_part.key == scenario.key(1)
    number = len(await scenario.run_events(FLOW_RUN))

    put_parts(workspace, "Complete", status)
    await poll_until_explained(scenario, clock)
    state = await scenario.state(71, FLOW_RUN)
    assert state is not None
    left = scenario.key(2) if status == "Failed" else None
    assert (None if state.failed_part is None else state.failed_part.key) == left
    assert state.error == ("Failed 2" if left else None)
    end = "failed" if left else "succeeded"
    events = [text.partition(":")[2] for text in await scenario.run_events(FLOW_RUN)]
    assert events[number:] == ["corrected", end]


async def test_a_plan_run_hides_no_failure_that_its_flow_run_hides_no_more(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A success of a part that is taken back is taken back by the whole, long after its end."""
    await begin_plan_run(scenario, workspace)
    workspace.put_flow_run(71, "Complete")
    put_parts(workspace, "Failed", ranfor="plan")
    put_snapshot(workspace, {7: [1]})
    await poll_until_explained(scenario, clock)
    workspace.put_plan_run(7, "Complete", plan={"id": SNAPSHOT})
    await poll_until_explained(scenario, clock)
    state = await scenario.state(7, PLAN_RUN)
    assert state is not None
    assert state.failed_part is not None

    await clock.advance(3_600)
    put_parts(workspace, "Complete", ranfor="plan")
    await poll_until_explained(scenario, clock)
    state = await scenario.state(7, PLAN_RUN)
    assert state is not None
    assert (state.status, state.failed_part) == (Status.SUCCEEDED, None)
