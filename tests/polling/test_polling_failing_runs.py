"""One run that cannot be read keeps no other run waiting, however long that lasts."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from monitor.catalogue.operations import Edition
from monitor.model.errors import MonitorError, TryLaterError
from monitor.model.runs import RunKind
from monitor.polling.settings import PollSettings
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario, until
from tests.polling.tiny_workspace import FORBIDDEN, NO_OBJECT, OVERLOADED, TinyWorkspace, stamp


@pytest.fixture
def settings() -> PollSettings:
    return PollSettings(detail_wait_seconds=0.0, follow=("job_group/901", "job_group/902"))


@pytest.fixture
async def legacy(unbegun: Scenario, clock: ManualClock) -> Scenario:
    """A scenario in edition LE, in which nothing can be listed."""
    await unbegun.begin(Edition.LE)
    await clock.advance(60)
    return unbegun


async def test_a_named_run_that_fails_keeps_no_other_from_being_followed(
    legacy: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The other named run and the active ones are still read in the same cycle."""
    workspace.put_job_group(1, "InProgress")
    await legacy.polls.by_id.confirm(legacy.key(1))
    workspace.put_job_group(901)
    workspace.put_job_group(902)
    workspace.faults["jobGroups/901"] = OVERLOADED
    await clock.advance(5)
    workspace.put_job_group(1, "Complete")
    with pytest.raises(TryLaterError):
        await legacy.polls.by_id.poll()

    assert (await legacy.run_events())[2:] == ["902:queued", "902:started", "1:succeeded"]


async def test_a_named_run_that_always_fails_is_given_up(
    legacy: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """After the stated number of attempts the poll works again without it."""
    workspace.put_job_group(901)
    workspace.put_job_group(902)
    workspace.faults["jobGroups/901"] = OVERLOADED
    failures = 0
    for _ in range(10):
        await clock.advance(5)
        try:
            await legacy.polls.by_id.poll()
        except TryLaterError:
            failures += 1

    assert failures == legacy.settings.attempts - 1
    assert workspace.count("jobGroups/901") == legacy.settings.attempts


async def test_active_runs_that_fail_come_last(
    legacy: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """As many as are read at once may fail for good; each cycle still reads all others."""
    for number in range(1, 9):
        workspace.put_job_group(number, "InProgress")
        await legacy.polls.by_id.confirm(legacy.key(number))
        await clock.advance(1)
    workspace.faults["jobGroups/[1-4]"] = OVERLOADED
    for _ in range(3):
        await clock.advance(5)
        with pytest.raises(TryLaterError):
            await legacy.polls.by_id.poll()
    for number in range(5, 9):
        workspace.put_job_group(number, "Complete")
    await clock.advance(5)
    with pytest.raises(TryLaterError):
        await legacy.polls.by_id.poll()

    ended = {event for event in await legacy.run_events() if event.endswith("succeeded")}
    assert ended == {f"{number}:succeeded" for number in range(5, 9)}


async def test_the_reconciliation_continues_after_a_run_that_fails(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A job group that cannot be read hides neither another that is gone nor a plan run."""
    for number in (1, 2, 4):
        workspace.put_job_group(number)
    workspace.put_plan_run(3)
    await scenario.polls.changes.poll()
    await scenario.polls.plan_runs.poll()
    # What is still shown proves that the workspace has not forgotten everything.
    workspace.tables["jobLibrary"] = {4: workspace.tables["jobLibrary"][4]}
    workspace.tables["planSnapshotRuns"].clear()
    workspace.faults["jobGroups/1"] = OVERLOADED
    for _ in range(2):
        await clock.advance(300)
        with pytest.raises(TryLaterError):
            await scenario.poll("reconciliation")

    assert [event for event in await scenario.run_events() if event.endswith("lost")] == [
        "2:lost",
        "3:lost",
    ]


async def test_a_list_that_fails_keeps_no_other_list_from_being_reconciled(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Plan runs are reconciled and listed again while the list of job groups answers 503."""
    await clock.advance(60)
    workspace.put_plan_run(3)
    workspace.faults["jobLibrary"] = OVERLOADED
    for name in ("reconciliation", "relist"):
        with pytest.raises(TryLaterError):
            await scenario.poll(name)

    assert await scenario.run_events() == ["3:queued", "3:started"]
    assert {query.get("status") for path, query in workspace.requests if "plan" in path} > {None}


async def test_flows_that_cannot_be_listed_keep_no_plan_from_being_named(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The names of plans are read although the list of flows fails."""
    workspace.tables["plans"][5] = {"id": 5, "name": "Nightly"}
    workspace.faults["flows"] = OVERLOADED
    with pytest.raises(TryLaterError):
        await scenario.polls.pipeline_names.poll()

    assert [pipeline.name for pipeline in scenario.live_state.view.pipelines()] == ["Nightly"]


@pytest.mark.parametrize("fault", [OVERLOADED, NO_OBJECT])
async def test_progress_is_read_although_some_job_records_cannot_be(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, fault: tuple[int, str]
) -> None:
    """More failing job groups than one cycle reads do not keep the others from their turn."""
    workspace.embeds_jobs = False
    for number in range(1, 14):
        workspace.put_job_group(number)
        workspace.put_job(number, "InProgress", percentComplete=40)
    workspace.faults = {f"jobGroups/{number}/jobs": fault for number in range(1, 13)}
    await scenario.polls.changes.poll()
    for _ in range(3):
        await clock.advance(5)
        try:
            await scenario.poll("progress")
        except MonitorError:
            continue

    assert scenario.live_state.active[scenario.key(13)].percent_complete == 40
    assert workspace.count(r"jobGroups/\d+/jobs") == 13


async def test_an_old_flow_run_that_is_gone_is_not_read_again(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It never was followed, so no reconciliation ends it; after a 404 it is not read again."""
    before = stamp(scenario.since() - timedelta(hours=2))
    row = workspace.put_job_group(1, "Complete", createdAt=before, flowRun={"id": 71})
    row["updatedAt"] = before
    await scenario.polls.changes.poll()
    for _ in range(20):
        await clock.advance(60)
        await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)

    assert workspace.count("flowRuns/71.*") == 1
    assert scenario.polls.flow_runs.seconds_until_due() is None
    assert await scenario.run_events(RunKind.FLOW_RUN) == []


async def test_an_old_flow_run_that_cannot_be_read_is_given_up(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A run that ended before we followed is worth a number of attempts, not all requests."""
    before = stamp(scenario.since() - timedelta(hours=2))
    row = workspace.put_job_group(1, "Complete", createdAt=before, flowRun={"id": 71})
    row["updatedAt"] = before
    workspace.faults["flowRuns/71.*"] = OVERLOADED
    await scenario.polls.changes.poll()
    for _ in range(20):
        await clock.advance(60)
        try:
            await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)
        except TryLaterError:
            continue

    assert workspace.count("flowRuns/71.*") == scenario.settings.attempts


async def test_a_flow_run_that_is_refused_makes_no_other_unknown(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A person's private flow run grows old by itself; the rest is confirmed as before."""
    workspace.put_job_group(1, "Complete", flowRun={"id": 71})
    workspace.faults["flowRuns/71.*"] = FORBIDDEN
    await scenario.polls.changes.poll()
    with pytest.raises(MonitorError):
        await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)
    await clock.advance(5)
    await scenario.polls.changes.poll()

    assert scenario.live_state.confirmed[NAME, RunKind.FLOW_RUN] == clock.now()


async def test_requests_for_job_records_that_never_come_have_an_end(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A day after the end they are dropped, so the queue cannot fill with such."""
    workspace.put_job_group(1, "Complete")
    workspace.faults["jobGroups/1/jobs"] = OVERLOADED
    await scenario.polls.changes.poll()
    reading = asyncio.create_task(scenario.polls.details.run())
    with capture_logs() as logs:
        await until(lambda: any(log["event"] == "job records put off" for log in logs))
        await clock.advance(90_000)
        await until(lambda: any(log["event"] == "job records given up" for log in logs))
    reads_before = workspace.count("jobGroups/1/jobs")
    await clock.advance(3_600)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading

    assert workspace.count("jobGroups/1/jobs") == reads_before
    assert await scenario.run_events() == ["1:queued", "1:started", "1:succeeded"]
