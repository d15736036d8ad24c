"""A plan run that was observed without its plan gets it as soon as the workspace shows it."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from monitor.bus.contract import Retention
from monitor.model.errors import TryLaterError
from monitor.model.runs import PipelineKind, RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.plan_rows import PLAN, SNAPSHOT, put_plan, put_snapshot
from tests.polling.tiny_workspace import FORBIDDEN, OVERLOADED, TinyWorkspace, stamp

FULL = f"plans/{SNAPSHOT}/full"
_DAY_SECONDS = 86_400


async def observe_unlabelled(
    scenario: Scenario, workspace: TinyWorkspace, fault: tuple[int, str], run_id: int = 7
) -> None:
    """Let a plan run fail whose snapshot cannot be read, until it is observed all the same."""
    put_plan(workspace)
    workspace.faults[FULL] = fault
    workspace.put_plan_run(
        run_id, "Failed", plan={"id": SNAPSHOT}, finishedAt=stamp(workspace.now())
    )
    for _ in range(scenario.settings.attempts):
        with suppress(TryLaterError):
            await scenario.polls.plan_runs.poll()
    assert await label_of(scenario, run_id) is None


async def label_of(scenario: Scenario, run_id: int = 7) -> str | None:
    state = await scenario.state(run_id, RunKind.PLAN_RUN)
    assert state is not None
    return None if state.pipeline is None else state.pipeline.id


async def poll_when_due(scenario: Scenario, clock: ManualClock, seconds: float) -> int:
    """Run the poll whenever it is due for so long; return how often."""
    until, polls = clock.monotonic() + seconds, 0
    while (wait := scenario.polls.unlabelled.seconds_until_due()) is not None:
        if clock.monotonic() + wait > until:
            break
        await clock.advance(wait)
        with suppress(TryLaterError):
            await scenario.polls.unlabelled.poll()
        polls += 1
    await clock.advance(until - clock.monotonic())
    return polls


@pytest.mark.parametrize("fault", [OVERLOADED, FORBIDDEN])
async def test_a_plan_run_is_labelled_when_its_plan_can_be_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, fault: tuple[int, str]
) -> None:
    """State, live state and pipeline health show the plan, hours after all attempts failed."""
    await observe_unlabelled(scenario, workspace, fault)
    assert await poll_when_due(scenario, clock, 7_000) < 10
    assert await label_of(scenario) is None

    workspace.faults.clear()
    put_snapshot(workspace)
    await poll_when_due(scenario, clock, 9_000)

    assert await label_of(scenario) == str(PLAN)
    (health,) = scenario.live_state.view.pipeline_health()
    assert (health.pipeline.kind, health.pipeline.id) == (PipelineKind.PLAN, str(PLAN))
    assert (await scenario.run_events())[:3] == ["7:queued", "7:started", "7:failed"]
    assert scenario.polls.unlabelled.seconds_until_due() is None
    assert await scenario.bus.state_entries(NAME, "unlabelled_plan_run") == {}


async def test_an_active_plan_run_is_labelled_in_live_state(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """While it runs, too, although none of its rows is written again."""
    put_plan(workspace)
    workspace.faults[FULL] = FORBIDDEN
    workspace.put_plan_run(7, plan={"id": SNAPSHOT})
    await scenario.polls.plan_runs.poll()
    key = scenario.key(7, RunKind.PLAN_RUN)
    assert scenario.live_state.active[key].run.pipeline is None
    workspace.faults.clear()
    put_snapshot(workspace)
    await poll_when_due(scenario, clock, 60)

    plan = scenario.live_state.active[key].run.pipeline
    assert plan is not None
    assert (plan.id, plan.name) == (str(PLAN), "Nightly")


async def test_a_restart_resumes_the_look_up(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Also days later, when no list shows the run any more."""
    await observe_unlabelled(scenario, workspace, OVERLOADED)
    workspace.tables["planSnapshotRuns"].clear()
    await clock.advance(3 * _DAY_SECONDS)
    await scenario.restart()
    workspace.faults.clear()
    put_snapshot(workspace)
    await poll_when_due(scenario, clock, 60)

    assert await label_of(scenario) == str(PLAN)


async def test_the_waits_grow_up_to_a_day(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A run that can never be read costs a read a day in the end."""
    await observe_unlabelled(scenario, workspace, FORBIDDEN)
    first = await poll_when_due(scenario, clock, 2 * _DAY_SECONDS)
    reads = workspace.count(FULL)
    assert first < 15

    assert await poll_when_due(scenario, clock, 10 * _DAY_SECONDS) == 10
    assert workspace.count(FULL) == reads + 10


async def test_a_plan_that_becomes_known_labels_all_its_runs(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """One read of the snapshot labels the runs that wait for it, whatever requested it."""
    for run_id in (7, 8, 9):
        await observe_unlabelled(scenario, workspace, FORBIDDEN, run_id)
    await poll_when_due(scenario, clock, _DAY_SECONDS)
    workspace.faults.clear()
    put_snapshot(workspace)
    reads = workspace.count(FULL)
    await poll_when_due(scenario, clock, _DAY_SECONDS)

    assert {await label_of(scenario, run_id) for run_id in (7, 8, 9)} == {str(PLAN)}
    assert workspace.count(FULL) == reads + 1


async def test_a_run_that_the_store_has_forgotten_is_dropped(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Nothing is looked up for it forever."""
    await observe_unlabelled(scenario, workspace, FORBIDDEN)
    await scenario.bus.prune(
        Retention(runs_seconds=0.0), now=scenario.clock.now() + timedelta(days=1)
    )
    assert await scenario.state(7, RunKind.PLAN_RUN) is None
    await poll_when_due(scenario, clock, 60)

    assert scenario.polls.unlabelled.seconds_until_due() is None
