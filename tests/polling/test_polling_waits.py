"""Which ends wait for job records before they are published: failures, and only where it helps."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from monitor.model.observations import Observation
from monitor.model.runs import RunKind, RunState, Source
from monitor.polling.settings import PollSettings
from monitor.workspace.priority import Priority
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario, until
from tests.polling.job_record_readers import detailed, readers
from tests.polling.plan_rows import begin_plan_run, put_snapshot
from tests.polling.tiny_workspace import FORBIDDEN, TinyWorkspace

_FEW_PER_MINUTE = 40.0  # requests: 10 at once, some of them kept for what matters more


@pytest.fixture
def settings() -> PollSettings:
    return PollSettings(detail_wait_seconds=1.0)


def callback_of(scenario: Scenario, run_id: int, word: str = "Failed") -> Observation:
    return Observation(
        key=scenario.key(run_id),
        source=Source.CALLBACK,
        observed_at=scenario.clock.now(),
        native_status=word,
        inbox_id=1,
    )


async def state_of(scenario: Scenario, run_id: int) -> RunState:
    state = await scenario.state(run_id)
    assert state is not None
    return state


async def test_a_success_is_published_before_its_records_are_read(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The poll is done while the read of the records still hangs; they follow by themselves."""
    hold = workspace.holds["jobGroups/1/jobs"] = asyncio.Event()
    workspace.put_job(1)
    workspace.put_job_group(1, "Complete")
    async with readers(scenario):
        await scenario.polls.changes.poll()
        assert await scenario.run_events() == ["1:queued", "1:started", "1:succeeded"]

        hold.set()
        await detailed(scenario, 1)

    assert (await scenario.run_events())[-1] == "1:detailed"


async def test_successes_do_not_wait_for_a_failure_of_their_page(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """While a failure waits for its reason, what else its page shows is published already."""
    workspace.holds["jobGroups/1/jobs"] = asyncio.Event()
    workspace.put_job_group(1, "Failed")
    workspace.put_job_group(2, "Complete")
    async with readers(scenario):
        polling = asyncio.create_task(scenario.polls.changes.poll(), name="poll")
        await until(lambda: workspace.count("jobGroups/1/jobs") > 0)
        before = await scenario.run_events()
        await clock.advance(1)
        await polling

    assert before == ["2:queued", "2:started", "2:succeeded"]
    assert "1:failed" in await scenario.run_events()


async def test_a_failure_does_not_wait_for_what_the_budget_cannot_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """With a budget spent for longer than ends may wait, it is published at once."""
    spend(scenario, _FEW_PER_MINUTE)
    workspace.put_job_group(1, "InProgress")
    await scenario.polls.changes.poll()
    workspace.put_job_group(1, "Failed")
    while scenario.client.requester.budget.seconds_until_turn(Priority.FAILED_DETAILS) <= 1.0:
        await scenario.client.runs.job_group("1", priority=Priority.CHANGES)
    began = clock.monotonic()
    await scenario.polls.changes.poll()

    assert (await scenario.run_events())[-1] == "1:failed"
    assert clock.monotonic() == began
    assert scenario.polls.details.waiting == 1


def spend(scenario: Scenario, requests_per_minute: float) -> None:
    """Let the budget be as small as that from now on."""
    budget = scenario.client.requester.budget
    budget._requests_per_minute = requests_per_minute


async def test_of_many_failures_only_those_wait_that_can_be_read_in_time(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Each failure counts those before it; what comes too late for the wait is not waited for."""
    spend(scenario, _FEW_PER_MINUTE)
    for number in range(1, 41):
        workspace.put_job_group(number, "InProgress")
    await scenario.polls.changes.poll()
    state = await state_of(scenario, 1)
    in_time = [
        scenario.polls.job_groups.must_wait(callback_of(scenario, 1), state, ahead=ahead)
        for ahead in range(40)
    ]

    assert in_time == sorted(in_time, reverse=True)
    assert 0 < sum(in_time) < 10


async def test_only_news_of_a_failure_may_wait(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Only an unpublished failure of a job group waits, and none where nothing may wait."""
    workspace.put_job_group(1, "InProgress")
    await scenario.polls.changes.poll()
    running = await state_of(scenario, 1)
    must_wait = scenario.polls.job_groups.must_wait

    assert must_wait(callback_of(scenario, 1), running)
    for word in ("Complete", "Canceled", "InProgress", "Hibernating"):
        assert not must_wait(callback_of(scenario, 1, word), running)
    flow_run = msgspec.structs.replace(
        callback_of(scenario, 1), key=scenario.key(1, RunKind.FLOW_RUN)
    )
    assert not must_wait(flow_run, msgspec.structs.replace(running, key=flow_run.key))

    await scenario.observer.observe((callback_of(scenario, 1),))
    claimed = await state_of(scenario, 1)
    assert not must_wait(callback_of(scenario, 1), claimed)
    workspace.faults["jobGroups/1/jobs"] = FORBIDDEN
    workspace.put_job_group(1, "Failed")
    async with readers(scenario):
        await scenario.polls.changes.poll()
    assert not must_wait(callback_of(scenario, 1), await state_of(scenario, 1))


@pytest.mark.parametrize("settings", [PollSettings(detail_wait_seconds=0.0)])
async def test_nothing_waits_where_waiting_is_switched_off(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """``detail_wait_seconds = 0``: a failure is published at once."""
    workspace.put_job_group(1, "InProgress")
    await scenario.polls.changes.poll()

    assert not scenario.polls.job_groups.must_wait(
        callback_of(scenario, 1), await state_of(scenario, 1)
    )


async def test_a_failed_part_waits_for_its_plan_run_as_long_as_that_is_not_known(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The plan run is read before the failure of a part, and once it is known never again."""
    await begin_plan_run(scenario, workspace)
    workspace.put_job_group(1, "InProgress", ranfor="plan")
    await scenario.polls.changes.poll()
    part = await state_of(scenario, 1)
    read = msgspec.structs.replace(part, detailed=True)  # so that no job record is waited for
    assert scenario.polls.job_groups.must_wait(callback_of(scenario, 1), read)
    assert not scenario.polls.job_groups.must_wait(callback_of(scenario, 1, "Complete"), read)

    put_snapshot(workspace, {7: [1]})
    await scenario.polls.plan_children.poll()
    linked = msgspec.structs.replace(await state_of(scenario, 1), detailed=True)
    assert linked.parents.plan_run == "7"
    assert not scenario.polls.job_groups.must_wait(callback_of(scenario, 1), linked)


async def test_records_that_no_rule_waited_for_are_read_once(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The end that a callback reports at once gets its records later, by one read."""
    workspace.put_job_group(1, "InProgress")
    await scenario.polls.changes.poll()
    workspace.put_job(1)
    claim = callback_of(scenario, 1, "Complete")
    await scenario.observer.observe((claim,))
    scenario.polls.details.complete_later((claim, claim))
    async with readers(scenario):
        await detailed(scenario, 1)
        await until(lambda: scenario.polls.details.waiting == 0)
        scenario.polls.details.complete_later((claim,))
        workspace.put_job_group(1, "Complete")
        await scenario.polls.changes.poll()

    assert scenario.polls.details.waiting == 0
    assert workspace.count("jobGroups/1/jobs") == 1
    assert (await scenario.run_events())[-1] == "1:detailed"
