"""Polls while the store does not answer: each waits for itself, and goes on soon after."""

from __future__ import annotations

import pytest

from monitor.catalogue.capabilities import Capability
from monitor.polling.settings import PollSettings
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario, asleep
from tests.polling.test_polling_poller import running
from tests.polling.tiny_workspace import NO_ROUTE, TinyWorkspace


@pytest.fixture
def settings() -> PollSettings:
    return PollSettings(jitter_share=0.0, detail_wait_seconds=0.0)


async def seconds_pass(clock: ManualClock, seconds: int) -> None:
    """Let so many seconds pass one by one, each until every poll waits for its time."""
    for _ in range(seconds):
        await clock.advance(1)
        await asleep(clock)


def attempts(scenario: Scenario, poll: str, outcome: str) -> float:
    labels = {"workspace": NAME, "poll": poll, "outcome": outcome}
    return scenario.sample("dataprep_monitor_polls_total", **labels)


async def test_runs_that_stay_due_wait_ever_longer_for_the_store(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It is tried every ten seconds in a long outage, and at the latest so long after it."""
    workspace.put_flow_run(71)
    workspace.put_job_group(1, flowRun={"id": 71})
    async with running(unbegun.poller()):
        await asleep(clock)
        await seconds_pass(clock, 5)
        workspace.put_flow_run(71, "Complete")
        workspace.put_job_group(1, "Complete")
        unbegun.bus.refuse_to_all("children")
        await seconds_pass(clock, 120)
        tries = attempts(unbegun, "flow_runs", "store")
        assert "71:succeeded" not in await unbegun.run_events()
        unbegun.bus.refuse_to_all()
        await seconds_pass(clock, 10)

    assert 10 <= tries <= 16
    assert "71:succeeded" in await unbegun.run_events()


async def test_a_poll_does_not_wait_out_its_interval_for_the_store(
    unbegun: Scenario, clock: ManualClock
) -> None:
    """After an outage of the store a poll of a long interval is repeated as a slow answer is."""
    unbegun.settings = PollSettings(jitter_share=0.0, relist_seconds=120.0)
    async with running(unbegun.poller()):
        await asleep(clock)
        unbegun.bus.refuse_to_all("recent_runs")
        await seconds_pass(clock, 121)
        unbegun.bus.refuse_to_all()
        assert attempts(unbegun, "details_left", "store") == 1
        await seconds_pass(clock, round(unbegun.settings.idle_seconds))

    assert attempts(unbegun, "details_left", "idle") == 1


async def test_a_loss_that_cannot_be_stored_costs_no_other_poll(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """No poll begins again, nothing is shown before it is durable, and then it is at once."""
    async with running(unbegun.poller()):
        await asleep(clock)
        await seconds_pass(clock, 1)
        first_reads = workspace.count("open-api-spec")
        workspace.faults["schedules"] = NO_ROUTE
        unbegun.bus.refuse_to_all("commit")
        await seconds_pass(clock, round(unbegun.settings.schedules_seconds))
        assert attempts(unbegun, "schedules", "not_available") == 1
        assert attempts(unbegun, "probe", "store") <= 32
        assert unbegun.context.can(Capability.READ_SCHEDULES)
        unbegun.bus.refuse_to_all()
        await seconds_pass(clock, 10)
        assert not unbegun.context.can(Capability.READ_SCHEDULES)

    assert await unbegun.changes() == [("capability:read_schedules", "available", "refused")]
    assert workspace.count("open-api-spec") == first_reads + 1  # by the probe of the loss
