"""Polls that callbacks wake ask for what is new; the regular poll finds what appears after it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.model.errors import BusUnavailableError, TryLaterError
from monitor.model.runs import RunKind
from monitor.polling.settings import PollSettings
from monitor.workspace.priority import Priority
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario, asleep
from tests.polling.test_polling_poller import running
from tests.polling.test_polling_waits import callback_of
from tests.polling.tiny_workspace import OVERLOADED, TinyWorkspace, stamp


def requested_since(workspace: TinyWorkspace) -> list[datetime]:
    """Return since when each request for changes of job groups asked."""
    name = "dateFilter[updatedAt][gte]"
    return [
        datetime.fromtimestamp(int(query[name]) / 1000, UTC)
        for path, query in workspace.requests
        if path == "jobLibrary" and name in query
    ]


async def test_a_woken_poll_asks_from_the_newest_change(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It includes the second of that change, since more may have been written in it."""
    workspace.put_job_group(1)
    newest = workspace.now()
    await clock.advance(60)
    await scenario.polls.changes.poll()
    await clock.advance(0.5)
    workspace.put_job_group(2, updatedAt=stamp(newest))
    await scenario.polls.changes.poll_newest()

    assert requested_since(workspace)[-1] == newest
    assert scenario.key(2) in scenario.live_state.active


async def test_before_the_first_whole_list_a_woken_poll_is_the_regular_one(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """There is no newest change yet, so it reads back as far as the first look does."""
    await scenario.polls.changes.poll_newest()

    day = timedelta(seconds=scenario.settings.first_look_seconds)
    assert requested_since(workspace) == [scenario.since() - day]
    assert scenario.polls.changes.watermark.at is not None


@pytest.mark.parametrize("poll", ["changes", "plan_runs"])
async def test_a_woken_poll_moves_no_watermark_and_confirms_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """A late row after the newest change is found by the regular poll, and none is lost."""
    kind = RunKind.JOB_GROUP if poll == "changes" else RunKind.PLAN_RUN
    put = workspace.put_job_group if poll == "changes" else workspace.put_plan_run
    changes = getattr(scenario.polls, poll)
    await changes.poll()
    stood_at, complete = changes.watermark.at, dict(scenario.live_state.complete)
    late = stamp(workspace.now())
    await clock.advance(20)
    put(1)
    await changes.poll_newest()
    put(2, updatedAt=late)
    await clock.advance(1)
    await changes.poll_newest()
    assert scenario.key(1, kind) in scenario.live_state.active
    assert scenario.key(2, kind) not in scenario.live_state.active
    assert (changes.watermark.at, scenario.live_state.complete) == (stood_at, complete)

    await changes.poll()
    assert scenario.key(2, kind) in scenario.live_state.active


async def test_a_woken_poll_that_left_rows_out_asks_for_them_again(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A row that cannot be handled yet stays within what the next poll asks for."""
    await scenario.polls.changes.poll()
    await clock.advance(60)
    workspace.hidden = ("wrangledDataset",)
    workspace.faults["jobGroups/1"] = OVERLOADED
    workspace.put_job_group(1)
    await clock.advance(10)
    workspace.put_job_group(2)
    with pytest.raises(TryLaterError):
        await scenario.polls.changes.poll_newest()
    workspace.faults.clear()
    await scenario.polls.changes.poll_newest()

    assert scenario.key(1) in scenario.live_state.active


async def test_wakes_do_not_put_off_the_regular_poll(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Woken every second, the overlap is still read at the interval, and not more often."""
    settings = unbegun.settings = PollSettings(jitter_share=0.0)
    poller = unbegun.poller()
    async with running(poller):
        await asleep(clock)
        for _ in range(60):
            workspace.put_job_group(1)
            poller.wake()
            await clock.advance(1)
            await asleep(clock)
    asked = requested_since(workspace)
    now = workspace.now()
    regular = [at for at in asked if now - at > timedelta(seconds=settings.overlap_seconds)]

    assert len(asked) > 50
    assert 60 / settings.active_seconds - 1 <= len(regular) <= 60 / settings.active_seconds + 3


async def test_after_a_failed_poll_the_next_one_is_whole(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A wake after a failure repeats the poll that failed, not a lesser one."""
    unbegun.settings = PollSettings(jitter_share=0.0)
    poller = unbegun.poller()
    async with running(poller):
        await asleep(clock)
        workspace.put_job_group(1)
        await clock.advance(5)
        await asleep(clock)
        workspace.faults["jobLibrary"] = OVERLOADED
        await clock.advance(60)
        await asleep(clock)
        workspace.faults.clear()
        poller.wake()
        await clock.advance(2)
        await asleep(clock)

    last = requested_since(workspace)[-1]
    assert workspace.now() - last > timedelta(seconds=unbegun.settings.overlap_seconds)
    assert unbegun.live_state.polls[NAME, "changes"].last_outcome == "ok"


async def test_callbacks_have_their_turn_between_the_pieces_of_a_page(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A callback of meanwhile waits for one piece, and the watermark for the last of them."""
    workspace.put_job_group(1_000, "InProgress")
    await scenario.polls.changes.poll()
    await clock.advance(10)
    for number in range(1, 201):
        workspace.put_job_group(number, "Complete")
    stood_at, stored = scenario.polls.changes.watermark.at, commits(scenario)
    polling = asyncio.create_task(scenario.polls.changes.poll(), name="poll")
    while commits(scenario) == stored:  # noqa: ASYNC110 - the first piece must not be overslept
        await asyncio.sleep(0)
    await scenario.observer.observe((callback_of(scenario, 1_000, "Complete"),))
    assert scenario.polls.changes.watermark.at == stood_at
    await polling

    events = await scenario.run_events()
    assert len(events) == 3 * 201
    assert events.index("1000:succeeded") < len(events) - 3 * 50
    assert scenario.polls.changes.watermark.at != stood_at


def commits(scenario: Scenario) -> float:
    return scenario.sample("dataprep_monitor_commit_duration_seconds_count")


async def test_a_page_that_failed_halfway_is_read_again(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """With its first pieces stored and the others not, the watermark stands and nothing repeats."""
    await scenario.polls.changes.poll()
    stood_at = scenario.polls.changes.watermark.at
    await clock.advance(10)
    for number in range(1, 201):
        workspace.put_job_group(number, "Complete")
    stored, observe = commits(scenario), scenario.observer.observe

    async def fail_at_the_third(*values: Any, **more: Any) -> Any:
        if commits(scenario) - stored >= 2:
            raise BusUnavailableError("the disk is full")
        return await observe(*values, **more)

    scenario.observer.observe = fail_at_the_third  # type: ignore[method-assign]  # a store that fails
    with pytest.raises(BusUnavailableError):
        await scenario.polls.changes.poll()
    assert len(await scenario.run_events()) == 3 * 100
    assert scenario.polls.changes.watermark.at == stood_at

    scenario.observer.observe = observe  # type: ignore[method-assign]
    await scenario.polls.changes.poll()
    events = await scenario.run_events()
    assert len(events) == len(set(events)) == 3 * 200


async def known_and_read(scenario: Scenario) -> tuple[set[str], set[str]]:
    """Return the ids that a list of changes recognises, and those that it reads in full."""
    known: set[str] = set()
    read: set[str] = set()
    async for page in scenario.client.runs.job_library(
        is_known=scenario.polls.job_groups.is_known, priority=Priority.CHANGES
    ):
        known |= {head.id for head in page.known}
        read |= {row.id for row in page.rows}
    return known, read


async def test_rows_that_have_not_changed_are_not_read_again(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Ended runs, active ones and samples are recognised; what was written since is read."""
    workspace.put_job_group(1, "Complete")
    workspace.put_job_group(2, "InProgress")
    workspace.put_job_group(3, "InProgress", ranfor="sampling")
    for number in (4, 5, 6):
        workspace.put_job_group(number, "InProgress")
    await scenario.polls.changes.poll()
    assert await known_and_read(scenario) == ({"1", "2", "3", "4", "5", "6"}, set())

    workspace.put_job_group(4, "Complete", updatedAt=workspace.tables["jobLibrary"][4]["updatedAt"])
    await clock.advance(1)
    workspace.put_job_group(5, "InProgress")
    await scenario.observer.observe((callback_of(scenario, 6, "Complete"),))
    assert await known_and_read(scenario) == ({"1", "2", "3", "6"}, {"4", "5"})


async def test_in_doubt_every_row_is_read(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """All rows of a doubted list are handled."""
    workspace.put_job_group(1, "Complete")
    await scenario.polls.changes.poll()
    scenario.polls.written[RunKind.JOB_GROUP].check.doubt({"7"}, "it shows it by its id")

    assert await known_and_read(scenario) == (set(), {"1"})


async def test_after_a_restart_every_row_is_read_once(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A reader that follows runs in memory meets them again, unchanged as they are."""
    workspace.put_job_group(1, "InProgress")
    await scenario.polls.changes.poll()
    await scenario.restart()
    assert await known_and_read(scenario) == (set(), {"1"})

    await scenario.polls.changes.poll()
    assert await known_and_read(scenario) == ({"1"}, set())


async def test_a_known_row_confirms_its_active_run(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Run and flow run are as fresh as the list that still shows them, without a commit of it."""
    workspace.put_job_group(1, "InProgress", flowRun={"id": 5})
    await scenario.polls.changes.poll()
    await clock.advance(30)
    stored = commits(scenario)
    await scenario.polls.changes.poll()
    active = scenario.live_state.active
    group, flow_run = active[scenario.key(1)], active[scenario.key(5, RunKind.FLOW_RUN)]

    assert group.confirmed_at == flow_run.confirmed_at == scenario.clock.now()
    assert group.run.unfinished_at == workspace.now()
    assert group.run.pipeline is not None
    assert group.run.pipeline.name == "Sales"
    assert commits(scenario) == stored + 1  # of the watermark
