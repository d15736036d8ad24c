"""Changes: the watermark is the workspace's time and moves only after what is committed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

import pytest

from monitor.model.errors import BusUnavailableError, TryLaterError, UnreadableAnswerError
from monitor.model.runs import RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import OVERLOADED, TinyWorkspace, stamp

ALL = ["queued", "started", "succeeded"]


async def test_a_run_is_followed_by_its_rows(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A job group that is observed waiting, running and over shows each transition once."""
    for status in ("Created", "InProgress", "Complete"):
        workspace.put_job_group(1, status)
        await scenario.polls.changes.poll()
        await scenario.polls.changes.poll()
        await clock.advance(5)

    assert await scenario.run_events() == [f"1:{transition}" for transition in ALL]
    state = await scenario.state(1)
    assert state is not None
    assert state.pipeline is not None
    assert state.pipeline.name == "Sales"
    assert state.url == f"{workspace.url}/jobs/1"


@pytest.mark.parametrize("offset_seconds", [-7_200, 7_200])
async def test_the_watermark_is_workspace_time(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock, offset_seconds: int
) -> None:
    """Clocks that are hours apart lose no run: our own time is never used."""
    scenario = unbegun
    workspace.offset = timedelta(seconds=offset_seconds)
    await scenario.begin()
    await clock.advance(60)
    await scenario.polls.changes.poll()
    at = scenario.polls.changes.watermark.at
    assert at is not None
    assert abs((at - workspace.now()).total_seconds()) < 5

    await clock.advance(600)
    workspace.put_job_group(1, "Complete")
    await scenario.polls.changes.poll()

    assert await scenario.run_events() == [f"1:{transition}" for transition in ALL]


async def test_a_failed_page_does_not_move_the_watermark(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A later poll reads the rows of a page that failed, however much later."""
    await scenario.polls.changes.poll()
    stood_at = scenario.polls.changes.watermark.at
    workspace.put_job_group(1, "Failed")
    workspace.faults["jobLibrary"] = OVERLOADED
    for _ in range(3):
        await clock.advance(600)
        with pytest.raises(TryLaterError):
            await scenario.polls.changes.poll()
    assert scenario.polls.changes.watermark.at == stood_at

    workspace.faults.clear()
    await scenario.polls.changes.poll()

    assert "1:failed" in await scenario.run_events()


async def test_the_watermark_waits_for_the_last_page(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Pages before the failing one are kept; those after it are requested again."""
    scenario.client.settings = scenario.client.requester.settings = (
        scenario.client.settings.__class__(
            name=NAME, url=workspace.url, page_size=4, retries=0, requests_per_minute=60_000
        )
    )
    await scenario.polls.changes.poll()
    for number in range(1, 10):
        workspace.put_job_group(number, "Complete")

    def fail_the_second(_path: str, query: Mapping[str, str]) -> None:
        workspace.faults = {"jobLibrary": OVERLOADED} if query.get("offset") != "0" else {}

    workspace.before_answer = fail_the_second
    with pytest.raises(TryLaterError):
        await scenario.polls.changes.poll()
    first = await scenario.run_events()
    assert "1:succeeded" in first
    assert "9:succeeded" not in first

    workspace.before_answer, workspace.faults = None, {}
    await clock.advance(3_600)
    await scenario.polls.changes.poll()

    events = await scenario.run_events()
    assert [f"{number}:succeeded" in events for number in range(1, 10)] == [True] * 9
    assert len(events) == len(set(events))


async def test_the_watermark_is_when_the_poll_began(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A run that changes while pages are read, after what was read, is in the next poll."""

    def change_meanwhile(path: str, _query: Mapping[str, str]) -> None:
        if path == "jobLibrary":
            clock._move_to(clock.monotonic() + 400)

    began_at = workspace.now()
    workspace.before_answer = change_meanwhile
    await scenario.polls.changes.poll()

    at = scenario.polls.changes.watermark.at
    assert at is not None
    assert at <= began_at + timedelta(seconds=2)


async def test_the_watermark_survives_a_restart(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The first poll after a restart reads what happened while the monitor was off."""
    await scenario.polls.changes.poll()
    workspace.put_job_group(1, "Complete")
    await clock.advance(50_000)
    await scenario.restart()
    await scenario.polls.changes.poll()

    assert "1:succeeded" in await scenario.run_events()
    _, query = next(
        request for request in reversed(workspace.requests) if request[0] == "jobLibrary"
    )
    since = int(query["dateFilter[updatedAt][gte]"]) / 1000
    assert since > (clock.now() - timedelta(seconds=52_000)).timestamp()


async def test_a_clock_set_back_hides_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """After the workspace's clock was set back, stamps before the watermark are still observed.

    That takes the minute after which it is believed, and the next poll.
    """
    await scenario.polls.changes.poll()
    workspace.offset = -timedelta(minutes=40)
    await clock.advance(300)
    workspace.put_job_group(1, "Complete")
    for _ in range(4):
        await clock.advance(400)
        await scenario.polls.changes.poll()

    assert "1:succeeded" in await scenario.run_events()


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(days=40), timedelta(days=-40)])
async def test_a_wrong_date_for_one_round_moves_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, ahead: timedelta
) -> None:
    """Watermark and what is known are of the time by which the other answers go."""
    await scenario.polls.changes.poll()
    await clock.advance(30)
    workspace.offset = ahead
    for _ in range(12):
        await scenario.polls.changes.poll()
        await clock.advance(1)
    workspace.offset = timedelta()
    watermark = scenario.polls.changes.watermark.at
    complete = scenario.live_state.complete[NAME, RunKind.JOB_GROUP]

    assert watermark is not None
    for at in (watermark, complete):
        assert timedelta(0) < clock.now() - at < timedelta(seconds=15)


async def test_a_row_that_appears_late_is_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A stamp older than the last poll, yet within the overlap, is read again."""
    await scenario.polls.changes.poll()
    await clock.advance(30)
    late = stamp(workspace.now() - timedelta(seconds=100))
    workspace.put_job_group(1, "Complete", createdAt=late, updatedAt=late)
    await scenario.polls.changes.poll()

    assert "1:succeeded" in await scenario.run_events()


async def test_without_a_date_header_the_newest_stamp_is_the_watermark(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A workspace that never shows its time is followed by the stamps of its rows."""
    workspace.sends_date = False
    await clock.advance(7_200)
    workspace.put_job_group(1, "Complete")
    await scenario.polls.changes.poll()
    at = scenario.polls.changes.watermark.at

    assert at is not None
    assert at <= clock.now()


async def test_an_unreadable_row_holds_up_no_other(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It goes on the refetch queue by its id, survives a restart there, and is read by its id."""
    workspace.put_job_group(1, "Complete")
    workspace.put_job_group(2, "Complete")["wrangledDataset"] = "not an object"
    workspace.put_job_group(3, "Complete")
    await scenario.polls.changes.poll()

    assert {"1:succeeded", "3:succeeded"} <= set(await scenario.run_events())
    assert len(scenario.polls.refetch_queue) == 1
    await clock.advance(600)
    await scenario.restart()
    assert len(scenario.polls.refetch_queue) == 1

    workspace.tables["jobLibrary"][2]["wrangledDataset"] = {"id": 45, "flow": {"id": 11}}
    await scenario.polls.refetch_queue.poll(scenario.polls.by_id.read_queued)

    assert "2:succeeded" in await scenario.run_events()
    assert len(scenario.polls.refetch_queue) == 0


async def test_a_run_that_stays_unreadable_is_given_up(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It is tried a bounded number of times, and its row does not start that again."""
    workspace.put_job_group(2, "Complete")["wrangledDataset"] = "not an object"
    for _ in range(20):
        await scenario.polls.changes.poll()
        if scenario.polls.refetch_queue.seconds_until_due() == 0:
            with suppress(UnreadableAnswerError):
                await scenario.polls.refetch_queue.poll(scenario.polls.by_id.read_queued)
        await clock.advance(60)

    assert workspace.count("jobGroups/2") == scenario.settings.attempts
    assert len(scenario.polls.refetch_queue) == 0


async def test_samples_never_become_runs(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """They are counted once each as ignored, however often a poll shows them."""
    for number, ran_for in enumerate(("sampling", "pendingDatasource", "refresh"), start=1):
        workspace.put_job_group(number, "Complete", ranfor=ran_for)
    for _ in range(3):
        await scenario.polls.changes.poll()

    assert await scenario.run_events() == []
    ignored = scenario.sample(
        "dataprep_monitor_observations_total", source="poll", outcome="ignored"
    )
    assert ignored == 3


async def test_a_complete_poll_confirms_what_is_known(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Only a complete poll confirms all known runs of its kind."""
    workspace.faults["jobLibrary"] = OVERLOADED
    with pytest.raises(TryLaterError):
        await scenario.polls.changes.poll()
    assert (NAME, RunKind.JOB_GROUP) not in scenario.live_state.confirmed

    workspace.faults.clear()
    await scenario.polls.changes.poll()

    assert scenario.live_state.confirmed[NAME, RunKind.JOB_GROUP] == clock.now()


async def test_equal_stamps_on_the_edge_are_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A run written in the very second of the last poll, after it, is in the next one."""
    await scenario.polls.changes.poll()
    workspace.put_job_group(1, "Complete", updatedAt=stamp(workspace.now()))
    await clock.advance(30)
    await scenario.polls.changes.poll()

    assert "1:succeeded" in await scenario.run_events()


async def test_a_failed_commit_holds_the_watermark(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """When the store fails, the live state stays as stored, and all of it is read again."""
    await scenario.polls.changes.poll()
    stood_at = scenario.polls.changes.watermark.at
    await clock.advance(30)
    workspace.put_job_group(1, "Complete", flowRun={"id": 71})
    workspace.put_flow_run(71)
    await scenario.bus.close()
    with pytest.raises(BusUnavailableError):
        await scenario.polls.changes.poll()
    assert scenario.polls.changes.watermark.at == stood_at
    assert not scenario.live_state.active

    await clock.advance(3_600)
    await scenario.restart()
    await scenario.polls.changes.poll()

    assert "1:succeeded" in await scenario.run_events()
    assert "71:started" in await scenario.run_events()
