"""Job records of many job groups come by few requests, where the workspace embeds them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pytest

from monitor.catalogue.operations import Edition
from monitor.model.errors import MonitorError
from monitor.model.runs import Status
from monitor.polling.settings import PollSettings
from monitor.workspace.priority import Priority
from tests.app.eventually import pause
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario, until
from tests.polling.job_record_readers import readers
from tests.polling.tiny_workspace import FORBIDDEN, OVERLOADED, TinyWorkspace

_BY_ID = "jobGroups/[0-9]+/jobs"
_LIST = "jobGroups"


@pytest.fixture
def settings() -> PollSettings:
    return PollSettings(detail_wait_seconds=1.0)


def put_ended(workspace: TinyWorkspace, ids: Iterable[int], status: str = "Complete") -> None:
    for number in ids:
        workspace.put_job(number, status)
        workspace.put_job(number, status, jobType="filewriter")
        workspace.put_job_group(number, status)


async def read_all(scenario: Scenario) -> None:
    """Poll, and let the readers work until all records are read."""
    async with readers(scenario):
        await scenario.polls.changes.poll()
        await until(lambda: scenario.polls.details.waiting == 0)


async def jobs_of(scenario: Scenario, run_id: int) -> tuple[str, ...]:
    state = await scenario.state(run_id)
    assert state is not None
    assert state.detailed
    assert state.jobs is not None
    return state.jobs.ids


async def test_records_of_many_ends_are_read_by_few_requests(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """200 ends cost one page and one read by id, which proves that the page tells the truth."""
    put_ended(workspace, range(1, 201))
    await read_all(scenario)

    assert (workspace.count(_LIST), workspace.count(_BY_ID)) == (1, 1)
    for number in (1, 100, 200):
        assert await jobs_of(scenario, number) == (f"{number}000", f"{number}001")
    events = await scenario.run_events()
    assert len(events) == len(set(events)) == 4 * 200


async def test_few_ends_are_read_by_their_ids(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """A page that must be looked for does not pay for three of them."""
    put_ended(workspace, range(1, 4))
    await read_all(scenario)

    assert (workspace.count(_LIST), workspace.count(_BY_ID)) == (0, 3)


async def test_job_groups_that_a_page_omits_are_read_alone(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A list that lacks some, or shows some without records, proves nothing about those."""
    put_ended(workspace, range(1, 21))
    workspace.unlisted["jobGroups"] = (4, 20)
    workspace.put_job_group(21, "Complete")
    await read_all(scenario)

    assert await jobs_of(scenario, 4) == ("4000", "4001")
    assert await jobs_of(scenario, 20) == ("20000", "20001")
    assert await jobs_of(scenario, 21) == ()
    assert workspace.count(_BY_ID) <= 4


@pytest.mark.parametrize("how", ["plain", "forbidden", "unsorted", "short"])
async def test_a_list_that_does_not_serve_is_not_asked_again_for_an_hour(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, how: str
) -> None:
    """Records are then read by id, as they are where no list embeds them."""

    def disturb() -> None:
        if how == "plain":
            workspace.embeds_jobs = False
        elif how == "forbidden":
            workspace.faults[_LIST] = FORBIDDEN
        elif how == "unsorted":
            workspace.documents[_LIST] = {"data": [{"id": 3}, {"id": 1}], "count": 2}
        else:
            jobs = {"data": [{"id": 7, "status": "Complete"}]}
            rows = [{"id": number, "jobs": jobs} for number in range(200, 0, -1)]
            workspace.documents[_LIST] = {"data": rows, "count": 200}

    disturb()
    for batch in range(6):
        put_ended(workspace, range(10 * batch + 1, 10 * batch + 11))
        await read_all(scenario)
        await clock.advance(60)
    asked = workspace.count(_LIST)
    assert asked <= 3
    assert await jobs_of(scenario, 55) == ("55000", "55001")

    workspace.embeds_jobs, workspace.documents = True, {}
    workspace.faults.clear()
    scenario.client.requester.forget_unavailable()
    await clock.advance(3_600)
    put_ended(workspace, range(61, 71))
    await read_all(scenario)
    assert workspace.count(_LIST) > asked


async def test_an_edition_without_the_list_reads_by_id(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """LE has no list of job groups, and none is asked for."""
    scenario.client.requester.edition = Edition.LE
    records = await scenario.polls.details.records.read(
        [str(number) for number in range(10)], priority=Priority.DETAILS, most_requests=3
    )

    assert records == {}
    assert workspace.count(_LIST) == 0


async def test_ids_that_lie_far_apart_are_found_in_a_few_pages(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Others own most ids, samples stand between ours, and some are deleted meanwhile."""
    everything = range(1_000_000, 1_000_000 + 37 * 3_000, 37)
    for number in everything:
        workspace.put_job_group(number, "InProgress", ranfor="sampling")
        workspace.put_job(number, "InProgress")
    records, wanted = scenario.polls.details.records, everything[1_000:1_400:3]

    async def found() -> int:
        return len(
            await records.read(list(map(str, wanted)), priority=Priority.DETAILS, most_requests=8)
        )

    assert await found() == len(wanted)
    first = workspace.count(_LIST)
    for number in everything[:90]:
        del workspace.tables["jobLibrary"][number]
    assert await found() == len(wanted)
    again = workspace.count(_LIST) - first

    assert first <= 6
    assert again <= 4


async def test_an_overloaded_list_is_asked_again_soon(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Runs that cannot be read now are neither given up nor read one by one."""
    put_ended(workspace, range(1, 41))
    workspace.faults[_LIST] = OVERLOADED
    async with readers(scenario):
        await scenario.polls.changes.poll()
        await until(lambda: workspace.count(_LIST) == 1)
        workspace.faults.clear()
        for _ in range(20):
            await clock.advance(1)
        await until(lambda: scenario.polls.details.waiting == 0)

    assert (workspace.count(_LIST), workspace.count(_BY_ID)) == (2, 1)


async def test_a_list_that_stays_overloaded_is_left_for_reads_by_id(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Whatever fails at the list alone does not keep records from being read for long."""
    put_ended(workspace, range(1, 9))
    workspace.faults[_LIST] = OVERLOADED
    async with readers(scenario):
        await scenario.polls.changes.poll()
        for _ in range(300):
            await clock.advance(1)
            await pause(0.001)
            if not scenario.polls.details.waiting:
                break

    assert (workspace.count(_LIST), workspace.count(_BY_ID)) == (3, 8)


async def test_ends_are_gathered_while_many_come(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The first is read at once; those of the next seconds together."""
    async with readers(scenario):
        put_ended(workspace, (1,))
        await scenario.polls.changes.poll()
        await until(lambda: scenario.polls.details.waiting == 0)
        for number in range(2, 22):
            put_ended(workspace, (number,))
            await scenario.polls.changes.poll()
        assert workspace.count(_BY_ID) == 1
        await clock.advance(3)
        await until(lambda: scenario.polls.details.waiting == 0)

    assert (workspace.count(_LIST), workspace.count(_BY_ID)) == (1, 2)


@pytest.mark.parametrize("settings", [PollSettings(detail_wait_seconds=0.0)])
async def test_a_failure_is_not_gathered_for(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """One that no rule waits for is read at once, before the successes that came before it."""
    async with readers(scenario):
        put_ended(workspace, range(1, 9))
        await scenario.polls.changes.poll()
        await until(lambda: scenario.polls.details.waiting == 0)
        put_ended(workspace, range(9, 17))
        await scenario.polls.changes.poll()
        assert scenario.polls.details.waiting == 8
        put_ended(workspace, (17,), "Failed")
        await scenario.polls.changes.poll()
        await until(lambda: scenario.polls.details.waiting == 0)

    detailed = [event for event in await scenario.run_events() if event.endswith("detailed")]
    assert detailed[8] == "17:detailed"
    assert workspace.count(_LIST) == 2


async def test_progress_of_many_runs_is_read_by_few_requests(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """60 active runs cost a page in half a minute, however often the poll comes."""
    for number in range(1, 61):
        workspace.put_job_group(number, "InProgress")
        workspace.put_job(number, "InProgress", percentComplete=40)
    await scenario.polls.changes.poll()
    for number in range(5):
        assert await scenario.poll("progress") is (number == 0)
        await clock.advance(5)

    assert (workspace.count(_LIST), workspace.count(_BY_ID)) == (1, 1)
    active = scenario.live_state.active
    assert {active[scenario.key(number)].percent_complete for number in range(1, 61)} == {40.0}
    assert all(run.run.status is Status.RUNNING for run in active.values())


async def test_a_list_that_cannot_be_proven_keeps_no_progress_from_being_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """While the read by id that would prove it fails, runs are read by their ids."""
    for number in range(1, 14):
        workspace.put_job_group(number, "InProgress")
        workspace.put_job(number, "InProgress", percentComplete=40)
    workspace.faults = {f"jobGroups/{number}/jobs": OVERLOADED for number in range(1, 13)}
    await scenario.polls.changes.poll()
    for _ in range(3):
        with suppress(MonitorError):
            await scenario.poll("progress")
        await clock.advance(5)

    assert scenario.live_state.active[scenario.key(13)].percent_complete == 40


async def test_progress_of_more_runs_than_pages_can_show_is_read_in_turns(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Those that were read longest ago come first, whatever their ids are."""
    scenario.page_size = 10
    await scenario.restart()
    for number in range(1, 281):
        workspace.put_job_group(number, "InProgress")
        workspace.put_job(number, "InProgress", percentComplete=40)
    await scenario.polls.changes.poll()
    for _ in range(7):
        await scenario.poll("progress")
        await clock.advance(30)

    active = scenario.live_state.active
    unread = [key.id for key, run in active.items() if run.percent_complete is None]
    assert (len(active), unread) == (280, [])
