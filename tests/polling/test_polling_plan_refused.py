"""What the list of plan runs has shown before it was refused."""

from __future__ import annotations

from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.plan_rows import begin_plan_run, plan_run_of, put_snapshot
from tests.polling.test_polling_plan_children import read_when_due
from tests.polling.tiny_workspace import TinyWorkspace


async def test_a_part_is_linked_after_the_list_of_plan_runs_was_refused(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The plan's record can still be read, and names what its run has started only then."""
    await begin_plan_run(scenario, workspace)
    workspace.put_job_group(1, ranfor="plan")
    await scenario.polls.changes.poll()
    capabilities = scenario.live_state.workspaces[NAME].capabilities
    scenario.live_state.update_workspace(NAME, capabilities=capabilities - {"list_plan_runs"})
    put_snapshot(workspace, {7: [1]})
    await read_when_due(scenario, clock, 60)

    assert await plan_run_of(scenario, 1) == "7"
