"""Following by id: edition LE, the operator's words, and runs that only a callback named."""

from __future__ import annotations

from contextlib import suppress

import pytest

from monitor.catalogue.operations import Edition
from monitor.model.errors import (
    ConfigurationError,
    NotAvailableError,
    TryLaterError,
    WorkspaceUnreachableError,
)
from monitor.model.runs import RunKind
from monitor.polling.settings import PollSettings, followed_run
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import FORBIDDEN, OVERLOADED, TinyWorkspace


@pytest.fixture
def settings() -> PollSettings:
    return PollSettings(detail_wait_seconds=0.0, follow=("job_group/1",))


@pytest.fixture
async def legacy(unbegun: Scenario, clock: ManualClock) -> Scenario:
    """A scenario in edition LE, in which nothing can be listed."""
    await unbegun.begin(Edition.LE)
    await clock.advance(60)
    return unbegun


async def test_a_followed_run_is_followed_to_its_end(
    legacy: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Each cycle reads each active run once; after the end nothing more is read."""
    workspace.put_job_group(1, "Created", flowRun={"id": 71})
    for status in ("Created", "InProgress", "Complete"):
        workspace.put_job_group(1, status)
        await legacy.polls.by_id.poll()
        await clock.advance(5)
    reads = workspace.count("jobGroups/1")
    assert await legacy.polls.by_id.poll() is False

    assert await legacy.run_events() == ["1:queued", "1:started", "1:succeeded"]
    assert workspace.count("jobGroups/1") == reads <= 4
    assert workspace.count("jobLibrary") == 0
    assert legacy.live_state.confirmed[NAME, RunKind.JOB_GROUP]


async def test_the_run_confirmed_longest_ago_is_read_first(
    legacy: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """When the workspace fails in the middle, the next cycle begins where this one ended."""
    for number in range(1, 9):
        workspace.put_job_group(number, "InProgress")
        await legacy.polls.by_id.confirm(legacy.key(number))
        await clock.advance(1)
    workspace.requests.clear()
    workspace.faults["jobGroups/5"] = OVERLOADED
    with pytest.raises(TryLaterError):
        await legacy.polls.by_id.poll()
    first = [path for path, _ in workspace.requests]
    workspace.requests.clear()
    workspace.faults.clear()
    await clock.advance(5)
    await legacy.polls.by_id.poll()

    assert "jobGroups/1" in first
    assert workspace.requests[0][0] == "jobGroups/5"


async def test_runs_that_cannot_be_read_hold_up_no_other_for_good(
    legacy: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """With four that always fail, a run whose own failures have passed is read again."""
    for number in range(1, 6):
        workspace.put_job_group(number, "InProgress")
        await legacy.polls.by_id.confirm(legacy.key(number))
    broken = {f"jobGroups/{number}": OVERLOADED for number in range(1, 5)}
    all_broken = {**broken, "jobGroups/5": OVERLOADED}
    for faults in (broken, broken, broken, all_broken, all_broken, all_broken):
        workspace.faults = faults
        if faults is broken:
            workspace.put_job_group(5, "InProgress")
        with pytest.raises(TryLaterError):
            await legacy.polls.by_id.poll()
        await clock.advance(5)
    workspace.faults = broken
    workspace.put_job_group(5, "Complete")
    for _ in range(6):
        with pytest.raises(TryLaterError):
            await legacy.polls.by_id.poll()
        await clock.advance(5)

    assert "5:succeeded" in await legacy.run_events()


async def test_a_gone_run_needs_two_reconciliations_here_too(
    legacy: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Polls follow each other quickly; a run is lost only after a reconciliation's time."""
    workspace.put_job_group(1, "InProgress")
    await legacy.polls.by_id.poll()
    del workspace.tables["jobLibrary"][1]
    for _ in range(10):
        await clock.advance(5)
        await legacy.polls.by_id.poll()
    assert "1:lost" not in await legacy.run_events()

    await clock.advance(300)
    await legacy.polls.by_id.poll()

    assert (await legacy.run_events())[-1] == "1:lost"


async def test_a_refused_run_ends_nothing(
    legacy: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """403 on a run that was observed before is a failure of the poll, not an end."""
    workspace.put_job_group(1, "InProgress")
    await legacy.polls.by_id.poll()
    workspace.faults["jobGroups/1"] = FORBIDDEN
    for _ in range(3):
        await clock.advance(300)
        with pytest.raises(NotAvailableError):
            await legacy.polls.by_id.poll()

    assert await legacy.run_events() == ["1:queued", "1:started"]


async def test_confirm_returns_what_the_workspace_answers(
    legacy: Scenario, workspace: TinyWorkspace
) -> None:
    """True: observed. False: denied, forbidden or never followed. None: unknown for now."""
    workspace.put_job_group(2, "Complete")
    workspace.put_job_group(4, "Complete", ranfor="sampling")
    workspace.put_job_group(5, "Complete")
    workspace.faults = {"jobGroups/3": FORBIDDEN, "jobGroups/5": OVERLOADED}
    confirm = legacy.polls.by_id.confirm

    answers = [await confirm(legacy.key(number)) for number in (2, 3, 4, 5, 666)]
    plan_run = await confirm(legacy.key(7, RunKind.PLAN_RUN))

    assert answers == [True, False, False, None, False]
    assert plan_run is False
    assert {event.split(":")[0] for event in await legacy.run_events()} == {"2"}


async def test_a_run_that_cannot_be_tracked_now_is_tracked_later(
    legacy: Scenario, workspace: TinyWorkspace
) -> None:
    """A run that the operator names during an outage is followed after it."""
    workspace.put_job_group(1, "Complete")
    workspace.put_job_group(9, "InProgress")
    workspace.faults["jobGroups/9"] = OVERLOADED
    assert await legacy.polls.by_id.track(legacy.key(9)) is None
    workspace.faults.clear()
    await legacy.polls.by_id.poll()

    assert "9:started" in await legacy.run_events()


async def test_a_named_run_is_followed_in_every_edition(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Where changes are listed, a named run is read once and then observed in the changes."""
    workspace.put_job_group(1, "InProgress")
    assert await scenario.polls.by_id.poll() is True
    assert await scenario.polls.by_id.poll() is False

    assert await scenario.run_events() == ["1:queued", "1:started"]
    assert workspace.count("jobGroups/1") == 1


@pytest.mark.parametrize("text", ["", "123", "flow/1", "job_group/", "job_group"])
def test_a_followed_run_is_kind_and_id(text: str) -> None:
    """Everything else is a fault of the configuration."""
    with pytest.raises(ConfigurationError):
        followed_run(NAME, text)


async def test_a_named_run_that_does_not_exist_is_denied_whatever_the_answer(
    legacy: Scenario, workspace: TinyWorkspace
) -> None:
    """Some answer 400 for an id that they do not have; a proxy's page denies nothing."""
    workspace.faults["jobGroups/8"] = (400, "ValidationFailed")
    workspace.faults["jobGroups/9"] = (400, "")

    assert await legacy.polls.by_id.track(legacy.key(8)) is False
    assert await legacy.polls.by_id.track(legacy.key(9)) is None


async def test_a_named_run_that_alone_cannot_be_read_is_given_up(
    legacy: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """After a few attempts, while others can be read; its requester is informed once."""
    key = legacy.key(8)
    workspace.put_job_group(1)
    workspace.faults["jobGroups/8"] = OVERLOADED
    assert await legacy.polls.by_id.track(key) is None
    assert not legacy.polls.by_id.gave_up(key)
    for _ in range(legacy.settings.attempts):
        await clock.advance(30)
        with suppress(WorkspaceUnreachableError):
            await legacy.polls.by_id.poll()

    assert [legacy.polls.by_id.gave_up(key) for _ in range(2)] == [True, False]
    assert not legacy.polls.by_id.untrack(key)


async def test_a_named_run_is_named_no_more(
    legacy: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It is not read once the request was dropped, however the workspace answers then."""
    key = legacy.key(8)
    workspace.faults["jobGroups/8"] = OVERLOADED
    assert await legacy.polls.by_id.track(key) is None
    assert [legacy.polls.by_id.untrack(key) for _ in range(2)] == [True, False]
    reads = workspace.count("jobGroups/8")
    workspace.faults.clear()
    workspace.put_job_group(8)
    await clock.advance(30)
    await legacy.polls.by_id.poll()

    assert workspace.count("jobGroups/8") == reads
    assert await legacy.run_events() == []
