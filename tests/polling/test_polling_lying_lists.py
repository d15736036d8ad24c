"""Lists of runs that lack what must be in them: nothing is concluded, and nothing is lost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from monitor.model.errors import DoubtedListError, MonitorError
from monitor.model.runs import RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import FORBIDDEN, TinyWorkspace, stamp

TABLES = {"changes": "jobLibrary", "plan_runs": "planSnapshotRuns"}
KINDS = {"changes": RunKind.JOB_GROUP, "plan_runs": RunKind.PLAN_RUN}
NAMES = {"changes": "job groups", "plan_runs": "plan runs"}
BOTH = pytest.mark.parametrize("poll", ["changes", "plan_runs"])


def put(workspace: TinyWorkspace, poll: str, run_id: int, status: str = "InProgress") -> None:
    if poll == "changes":
        workspace.put_job_group(run_id, status)
    else:
        ended = {} if status == "InProgress" else {"finishedAt": stamp(workspace.now())}
        workspace.put_plan_run(run_id, status, **ended)


def doubted(scenario: Scenario) -> list[str]:
    return [doubt.name for doubt in scenario.live_state.workspaces[NAME].doubted]


async def fails(scenario: Scenario, poll: str) -> str:
    """Run a poll that doubts its list, and return why."""
    with pytest.raises(DoubtedListError) as caught:
        await scenario.poll(poll)
    return str(caught.value)


@BOTH
async def test_a_list_that_lacks_what_it_has_just_shown_confirms_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """The watermark, the confirmation and the instant of completeness stay where they were."""
    put(workspace, poll, 1)
    await scenario.poll(poll)
    stood_at = getattr(scenario.polls, poll).watermark.at
    confirmed = dict(scenario.live_state.confirmed)
    complete = dict(scenario.live_state.complete)
    workspace.unlisted[TABLES[poll]] = workspace.EVERYTHING
    for _ in range(3):
        await clock.advance(30)
        assert "lacks 1" in await fails(scenario, poll)

    assert getattr(scenario.polls, poll).watermark.at == stood_at
    assert (scenario.live_state.confirmed, scenario.live_state.complete) == (confirmed, complete)
    assert doubted(scenario) == [NAMES[poll]]


@BOTH
async def test_a_whole_list_ends_the_doubt_and_shows_what_happened_meanwhile(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """Because the watermark did not move, an end of an hour ago is in the first whole list."""
    put(workspace, poll, 1)
    await scenario.poll(poll)
    workspace.unlisted[TABLES[poll]] = workspace.EVERYTHING
    await clock.advance(30)
    await fails(scenario, poll)
    put(workspace, poll, 2, "Failed")
    for _ in range(12):
        await clock.advance(300)
        await fails(scenario, poll)

    workspace.unlisted.clear()
    await scenario.poll(poll)

    assert "2:failed" in await scenario.run_events(KINDS[poll])
    assert doubted(scenario) == []
    assert scenario.live_state.confirmed[NAME, KINDS[poll]] == clock.now()


@BOTH
async def test_a_list_cut_short_is_doubted_at_the_cost_of_three_reads(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """Forty rows of fifty are missing; what the list still shows is handled all the same."""
    for number in range(1, 51):
        put(workspace, poll, number)
    await scenario.poll(poll)
    await clock.advance(30)
    workspace.unlisted[TABLES[poll]] = range(11, 51)
    put(workspace, poll, 1, "Failed")
    before = len(workspace.requests)
    await fails(scenario, poll)

    single = "jobGroups/" if poll == "changes" else "planSnapshotRuns/"
    reads = {path for path, _ in workspace.requests[before:] if path.startswith(single)}
    assert len({path for path in reads if path.count("/") == 1 and not path.endswith("/1")}) == 3
    assert "1:failed" in await scenario.run_events(KINDS[poll])


@BOTH
async def test_deleted_runs_are_no_lie(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """A run that its id denies as well need not be in the list, however many they are."""
    for number in range(1, 11):
        put(workspace, poll, number, "Complete")
    await scenario.poll(poll)
    await clock.advance(30)
    for number in range(2, 11):
        del workspace.tables[TABLES[poll]][number]
    for _ in range(2):
        await fails(scenario, poll)  # three of nine in each
    await scenario.poll(poll)

    assert doubted(scenario) == []
    assert scenario.live_state.confirmed[NAME, KINDS[poll]] == clock.now()


@BOTH
async def test_a_deleted_run_costs_one_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """A single deletion fails no poll."""
    for number in (1, 2):
        put(workspace, poll, number, "Complete")
    await scenario.poll(poll)
    await clock.advance(30)
    del workspace.tables[TABLES[poll]][2]
    for _ in range(3):
        await scenario.poll(poll)

    assert workspace.count("(jobGroups|planSnapshotRuns)/2") == 1
    assert doubted(scenario) == []


@BOTH
async def test_a_row_that_was_written_again_may_come_late(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """Lists that show a change later than its id does are usual; the overlap is for them."""
    put(workspace, poll, 1)
    await scenario.poll(poll)
    await clock.advance(30)
    put(workspace, poll, 1, "Complete")
    workspace.unlisted[TABLES[poll]] = {1}
    await scenario.poll(poll)

    assert doubted(scenario) == []
    assert scenario.live_state.confirmed[NAME, KINDS[poll]] == clock.now()


async def test_a_run_that_may_no_longer_be_read_is_no_proof(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A right withdrawn for one run leaves that run unknown, and the list is believed."""
    for number in (1, 2):
        workspace.put_job_group(number)
    await scenario.poll("changes")
    await clock.advance(30)
    workspace.unlisted["jobLibrary"] = {2}
    workspace.faults["jobGroups/2"] = FORBIDDEN
    await scenario.poll("changes")

    assert doubted(scenario) == []
    assert scenario.key(2) in scenario.live_state.active


async def test_an_empty_list_beside_refused_runs_is_doubted(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A token that may see nothing any more is not an empty workspace."""
    workspace.put_job_group(1)
    await scenario.poll("changes")
    await clock.advance(30)
    workspace.unlisted["jobLibrary"] = workspace.EVERYTHING
    workspace.faults["jobGroups/.*"] = FORBIDDEN
    await fails(scenario, "changes")

    assert doubted(scenario) == ["job groups"]


@BOTH
async def test_an_active_run_that_no_list_shows_makes_the_list_doubted(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """Its last write is long past, so no change poll expects it: the reconciliation does."""
    put(workspace, poll, 1)
    await scenario.poll(poll)
    await clock.advance(600)
    await scenario.poll(poll)
    await scenario.poll("reconciliation")
    assert doubted(scenario) == []
    stood_at = getattr(scenario.polls, poll).watermark.at

    workspace.unlisted[TABLES[poll]] = workspace.EVERYTHING
    await clock.advance(300)
    await fails(scenario, "reconciliation")
    assert doubted(scenario) == [NAMES[poll]]
    await fails(scenario, poll)  # the same list cannot be believed here either
    assert getattr(scenario.polls, poll).watermark.at == stood_at
    assert scenario.key(1, KINDS[poll]) in scenario.live_state.active

    workspace.unlisted.clear()
    await clock.advance(300)
    await scenario.poll("reconciliation")
    await scenario.poll(poll)
    assert doubted(scenario) == []


async def test_an_end_in_the_time_of_doubt_comes_with_the_whole_list(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The doubt outlasts the only run that proved it, until the list shows that run again."""
    workspace.put_job_group(1)
    await scenario.poll("changes")
    for _ in range(2):
        await clock.advance(600)
        await scenario.poll("changes")
    workspace.unlisted["jobLibrary"] = workspace.EVERYTHING
    await fails(scenario, "reconciliation")
    workspace.put_job_group(2, "Failed")
    workspace.put_job_group(1, "Complete")
    for _ in range(24):
        await clock.advance(150)
        for poll in ("reconciliation", "changes"):
            await fails(scenario, poll)

    workspace.unlisted.clear()
    await scenario.poll("changes")
    await scenario.poll("reconciliation")
    assert {"1:succeeded", "2:failed"} <= set(await scenario.run_events())
    assert doubted(scenario) == []


async def test_a_run_that_changes_between_two_lists_is_no_lie(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Lists by status are read one after the other: a run may be in none of them and be well."""
    workspace.put_job_group(1, "InProgress")
    await scenario.poll("changes")
    await clock.advance(600)
    workspace.tables["jobLibrary"][1]["status"] = "Complete"

    def start_again(path: str, _: Mapping[str, str]) -> None:
        if path == "jobGroups/1":
            workspace.put_job_group(1, "InProgress")

    workspace.before_answer = start_again
    await scenario.poll("reconciliation")

    assert doubted(scenario) == []


@pytest.mark.parametrize("body", ["<html>Sign in</html>", {}, {"data": None}])
async def test_an_answer_that_is_no_list_concludes_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, body: object
) -> None:
    """200 with a login page, an empty object or null confirms, removes and ends nothing."""
    workspace.tables["flows"] = {11: {"id": 11, "name": "Sales"}}
    workspace.tables["schedules"] = {5: {"id": 5, "name": "s", "triggers": [], "tasks": []}}
    workspace.put_job_group(1)
    polls = ("changes", "plan_runs", "reconciliation", "names", "schedules")
    for poll in polls:
        await scenario.poll(poll)
    stood_at = scenario.polls.changes.watermark.at
    confirmed, complete = dict(scenario.live_state.confirmed), dict(scenario.live_state.complete)
    schedules_read_at = scenario.live_state.workspaces[NAME].schedules_read_at
    for table in workspace.tables:
        workspace.texts[table] = body
    for _ in range(3):
        await clock.advance(600)
        for poll in polls:
            with pytest.raises(MonitorError):
                await scenario.poll(poll)

    status = scenario.live_state.workspaces[NAME]
    assert scenario.polls.changes.watermark.at == stood_at
    assert (scenario.live_state.confirmed, scenario.live_state.complete) == (confirmed, complete)
    assert (len(status.schedules), status.schedules_read_at) == (1, schedules_read_at)
    assert scenario.live_state.view.pipelines() != ()
    assert list(scenario.live_state.active) == [scenario.key(1)]


async def test_a_stamp_of_long_ago_is_not_expected(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A row leaves the window of the poll with time: an empty list is then the truth."""
    workspace.put_job_group(1, "Complete", updatedAt=stamp(workspace.now() - timedelta(seconds=50)))
    await scenario.poll("changes")
    for _ in range(20):
        await clock.advance(30)
        await scenario.poll("changes")

    assert workspace.count("jobGroups/1") == 0
    assert doubted(scenario) == []


@BOTH
async def test_runs_that_a_lying_list_hid_come_too(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """An empty list of changes is believed until the reconciliation; then it is read again."""
    put(workspace, poll, 1)
    await scenario.poll(poll)
    await clock.advance(600)
    await scenario.poll(poll)
    await scenario.poll("reconciliation")
    workspace.unlisted[TABLES[poll]] = workspace.EVERYTHING
    put(workspace, poll, 2, "Failed")
    for _ in range(9):
        await clock.advance(30)
        await scenario.poll(poll)
    await clock.advance(30)
    await fails(scenario, "reconciliation")
    # What the empty lists confirmed is taken back.
    assert scenario.live_state.confirmed[NAME, KINDS[poll]] == clock.now() - timedelta(seconds=300)
    await scenario.restart()  # the way back is durable

    workspace.unlisted.clear()
    await scenario.poll("reconciliation")
    await scenario.poll(poll)
    assert "2:failed" in await scenario.run_events(KINDS[poll])


async def test_a_list_that_lies_since_a_restart_confirms_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """No row must be in the window then, but the store holds what runs."""
    workspace.put_job_group(1)
    for _ in range(3):
        await scenario.poll("changes")
        await clock.advance(600)
    await scenario.restart()
    workspace.unlisted["jobLibrary"] = workspace.EVERYTHING
    await scenario.poll("changes")
    await fails(scenario, "reconciliation")

    assert (NAME, RunKind.JOB_GROUP) not in scenario.live_state.confirmed
    assert doubted(scenario) == ["job groups"]
