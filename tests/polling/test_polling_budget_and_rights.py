"""Small budgets, withdrawn rights and renewed tokens: what suffers, and what must not."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import BudgetExhaustedError, MonitorError, NotAvailableError
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.polling.discovery.capability_discovery import CapabilityDiscovery
from monitor.polling.poll_loop.poll import wait_after_links, wait_after_reads, wait_between_lists
from monitor.polling.poll_loop.reachability import ReachabilityJudge
from monitor.workspace.api_metrics import ApiMetrics
from monitor.workspace.priority import Priority
from monitor.workspace.request_budget import RequestBudget
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import FORBIDDEN, TinyWorkspace, stamp

TOKEN_REVOKED = (401, "InvalidTokenException")


class Spending:
    """Spends a budget of ten requests a minute as the polls do, and counts what is sent."""

    def __init__(self, clock: ManualClock) -> None:
        self.sent: Counter[Priority] = Counter()
        self._clock = clock
        self._budget = RequestBudget(
            workspace=NAME,
            requests_per_minute=10,
            clock=clock,
            metrics=ApiMetrics.of(CollectorRegistry()),
        )

    async def spend(self, priority: Priority, *, rest_seconds: float, at_once: int = 1) -> None:
        while True:
            for _ in range(at_once):
                try:
                    await self._budget.acquire(priority, wait_seconds=30, operation_id="any")
                except BudgetExhaustedError:
                    break
                self.sent[priority] += 1
            await self._clock.sleep(rest_seconds)


@pytest.mark.parametrize(
    ("loops", "at_once", "rest_seconds"),
    [(2, 1, wait_between_lists(10, lists=2)), (1, 50, wait_after_reads(10, reads=50))],
    ids=["two lists", "50 active runs"],
)
async def test_a_small_budget_is_not_spent_on_change_polls_alone(
    clock: ManualClock, loops: int, at_once: int, rest_seconds: float
) -> None:
    """With ten requests a minute, job records are read beside two lists or 50 active runs."""
    spending = Spending(clock)
    rest = max(5.0, rest_seconds)
    spenders = [
        spending.spend(Priority.CHANGES, rest_seconds=rest, at_once=at_once) for _ in range(loops)
    ]
    spenders.append(spending.spend(Priority.DETAILS, rest_seconds=1))
    tasks = [asyncio.create_task(spender) for spender in spenders]
    await clock.advance(1_800)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert spending.sent[Priority.DETAILS] >= 30
    assert spending.sent[Priority.CHANGES] >= 150


async def test_links_leave_a_small_budget_to_job_records(clock: ManualClock) -> None:
    """With ten requests a minute, plans are read without end, and beside them all the others."""
    spending = Spending(clock)
    spenders = [
        spending.spend(Priority.CHANGES, rest_seconds=wait_between_lists(10, lists=1)),
        spending.spend(Priority.LINKS, rest_seconds=wait_after_links(10, reads=1)),
        spending.spend(Priority.DETAILS, rest_seconds=1),
    ]
    tasks = [asyncio.create_task(spender) for spender in spenders]
    await clock.advance(1_800)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert spending.sent[Priority.LINKS] >= 35
    assert spending.sent[Priority.DETAILS] >= 25


def test_a_usual_budget_rests_no_longer_than_is_set() -> None:
    """With the default of 120 a minute the polls keep their five seconds."""
    assert wait_between_lists(120, lists=2) < 5
    assert wait_after_reads(120, reads=20) < 5


async def test_a_right_withdrawn_for_a_while_is_tried_again(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Within a minute, then every five minutes: an operator should not be blind for longer."""
    capability_discovery = CapabilityDiscovery(unbegun.context, ReachabilityJudge(unbegun.context))
    await capability_discovery.discover()
    first = capability_discovery.seconds_until_due()
    workspace.faults["jobLibrary"] = FORBIDDEN
    await unbegun.observer.open(NAME)
    with pytest.raises(NotAvailableError):
        await unbegun.polls.changes.poll()
    await capability_discovery.switch_off_refused()
    waits = [capability_discovery.seconds_until_due()]
    assert not unbegun.context.can(Capability.LIST_CHANGES)
    for _ in range(4):
        await clock.advance(waits[-1])
        await capability_discovery.discover()
        waits.append(capability_discovery.seconds_until_due())
    workspace.faults.clear()
    await clock.advance(waits[-1])
    await capability_discovery.discover()

    assert first == 21_600
    assert waits == [60, 300, 300, 300, 300]
    assert unbegun.context.can(Capability.LIST_CHANGES)
    assert capability_discovery.seconds_until_due() == 21_600


async def test_a_token_that_is_renewed_late_costs_no_pipeline(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Rows whose flow or plan cannot be read while the token is refused wait for the new one."""
    workspace.hidden = ("wrangledDataset", "flowRun")
    workspace.put_job_group(1)
    workspace.tables["plans"][13] = {"id": 13, "name": "Nightly"}
    workspace.full_plans[900] = {"id": 900, "snapshotted": True, "originalPlanId": 13}
    workspace.put_plan_run(7, plan={"id": 900})
    workspace.faults = {"jobGroups/1": TOKEN_REVOKED, "plans/900/full": TOKEN_REVOKED}
    for _ in range(2 * scenario.settings.attempts):
        for poll in (scenario.polls.changes.poll, scenario.polls.plan_runs.poll):
            with pytest.raises(MonitorError):
                await poll()
        await clock.advance(5)
    workspace.faults.clear()
    await scenario.polls.changes.poll()
    await scenario.polls.plan_runs.poll()

    group, plan_run = await scenario.state(1), await scenario.state(7, RunKind.PLAN_RUN)
    assert group is not None
    assert plan_run is not None
    assert group.pipeline == Pipeline(kind=PipelineKind.FLOW, id="11", name="Sales")
    assert plan_run.pipeline == Pipeline(kind=PipelineKind.PLAN, id="13", name="Nightly")


async def test_the_name_of_a_plan_holds_up_no_list_of_plan_runs(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Where nothing is left for names, the first plan run is observed with its plan at once."""
    workspace.tables["plans"][13] = {"id": 13, "name": "Nightly"}
    workspace.put_plan_run(7, plan={"id": 13})
    with suppress(BudgetExhaustedError):
        while True:
            await scenario.client.requester.budget.acquire(
                Priority.NAMES, wait_seconds=0, operation_id="listFlows"
            )
    async with asyncio.timeout(10):
        await scenario.polls.plan_runs.poll()
    state = await scenario.state(7, RunKind.PLAN_RUN)

    assert state is not None
    assert state.pipeline == Pipeline(kind=PipelineKind.PLAN, id="13", name="Nightly")


async def test_a_plan_that_ran_in_the_same_second_is_not_confused(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A plan that shows another run as its latest does not fit by its time."""
    row = workspace.put_plan_run(7, plan={"id": 900})
    workspace.faults["plans/900/full"] = FORBIDDEN
    workspace.tables["plans"][14] = {
        "id": 14,
        "name": "Other",
        "latestPlanSnapshotRun": {"id": 8, "createdAt": row["createdAt"]},
    }
    await scenario.polls.plan_runs.poll()
    state = await scenario.state(7, RunKind.PLAN_RUN)

    assert state is not None
    assert state.pipeline is None


async def test_a_plan_run_whose_children_are_linked_is_not_read_again(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Old plan runs that a restart or a long list shows once more cost no read each."""
    workspace.put_job_group(1, "Complete")
    await scenario.polls.changes.poll()
    workspace.tables["plans"][13] = {"id": 13, "name": "Nightly"}
    task_run = {
        "id": 1,
        "planSnapshotRun": {"id": 7},
        "planFlowTaskRunResults": {"data": [{"id": 1, "jobGroup": {"id": 1}}]},
    }
    node = {"id": 55, "taskType": "flow", "planTaskSnapshotRuns": {"data": [task_run]}}
    workspace.full_plans[13] = {"id": 13, "planNodes": {"data": [node]}}
    workspace.put_plan_run(7, "Complete", plan={"id": 13}, finishedAt=stamp(workspace.now()))
    await scenario.polls.plan_runs.poll()
    await scenario.polls.plan_children.poll()
    reads = workspace.count("plans/13/full")
    await scenario.restart()
    await scenario.poll("relist")
    await scenario.polls.plan_children.poll()

    assert reads == 1
    assert workspace.count("plans/13/full") == 1
