"""Flows that are no longer shared with the token's owner: doubted themselves, and nothing else."""

from __future__ import annotations

from contextlib import suppress

import pytest

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import MonitorError
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.test_polling_lying_lists import doubted
from tests.polling.tiny_workspace import FORBIDDEN, NO_OBJECT, TinyWorkspace

KEPT = 10  # a flow that stays


async def begin(scenario: Scenario, workspace: TinyWorkspace, *flows: int, runs: int = 1) -> None:
    """Begin so many runs of each flow, beside a flow that stays and does not run."""
    for flow in (KEPT, *flows):
        workspace.tables["flows"][flow] = {"id": flow, "name": f"flow {flow}"}
    await scenario.poll("names")
    for flow in flows:
        for number in range(1, runs + 1):
            put(workspace, 10 * flow + number, flow)
    await scenario.poll("changes")


def put(workspace: TinyWorkspace, run_id: int, flow: int, status: str = "InProgress") -> None:
    origin = {"id": flow, "flow": {"id": flow, "name": f"flow {flow}"}}
    workspace.put_job_group(run_id, status, wrangledDataset=origin)


def unshare(workspace: TinyWorkspace, *flows: int, refusal: tuple[int, str] = FORBIDDEN) -> None:
    """Hide flows and their runs from all lists, and refuse them by their ids."""
    table = workspace.tables["jobLibrary"]
    runs = [id_ for id_, row in table.items() if row["wrangledDataset"]["flow"]["id"] in flows]
    workspace.unlisted |= {"flows": flows, "jobLibrary": runs}
    for run_id in runs:
        workspace.faults[f"jobGroups/{run_id}.*"] = refusal
    for flow in flows:
        workspace.faults[f"flows/{flow}"] = refusal


def share_again(workspace: TinyWorkspace) -> None:
    workspace.unlisted.clear()
    workspace.faults.clear()


def unshared(scenario: Scenario) -> list[str]:
    return sorted(of.pipeline.id for of in scenario.live_state.workspaces[NAME].unshared.values())


def why_unshared(scenario: Scenario, flow: int) -> str | None:
    pipeline = Pipeline(kind=PipelineKind.FLOW, id=str(flow))
    return scenario.live_state.workspaces[NAME].why_unshared(pipeline)


@pytest.mark.parametrize("runs", [1, 4])
async def test_a_flow_that_is_unshared_is_doubted_alone(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, runs: int
) -> None:
    """Also where its runs are the only ones known: all other runs go on being confirmed."""
    await begin(scenario, workspace, 20, runs=runs)
    unshare(workspace, 20)
    for _ in range(3):
        await clock.advance(30)
        await scenario.poll("changes")

    assert doubted(scenario) == []
    assert unshared(scenario) == ["20"]
    assert "403" in (why_unshared(scenario, 20) or "")
    assert why_unshared(scenario, KEPT) is None
    assert scenario.live_state.confirmed[NAME, RunKind.JOB_GROUP] == clock.now()
    assert scenario.key(201) in scenario.live_state.active


async def test_a_long_run_of_an_unshared_flow_fails_no_reconciliation(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Its last write is long past, so only reconciliation misses it."""
    await begin(scenario, workspace, 20)
    await clock.advance(600)
    await scenario.poll("changes")
    await scenario.poll("reconciliation")
    unshare(workspace, 20)
    for _ in range(4):
        await clock.advance(300)
        await scenario.poll("changes")
        await scenario.poll("reconciliation")

    assert (doubted(scenario), unshared(scenario)) == ([], ["20"])


async def test_many_flows_unshared_at_once_hide_no_other(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Each of a dozen is named, neither list is doubted, and what runs elsewhere is reported."""
    flows = range(20, 32)
    await begin(scenario, workspace, *flows)
    put(workspace, 101, KEPT)
    await scenario.poll("changes")
    unshare(workspace, *flows)
    for _ in range(5):
        await clock.advance(300)
        put(workspace, 101, KEPT)
        await scenario.poll("changes")
        await scenario.poll("reconciliation")
        with suppress(MonitorError):
            await scenario.poll("names")  # not all of them are read by the first one
        assert doubted(scenario) == []
    put(workspace, 101, KEPT, "Failed")
    await scenario.poll("changes")

    assert unshared(scenario) == [str(flow) for flow in flows]
    assert "101:failed" in await scenario.run_events()


@pytest.mark.parametrize("refusal", [FORBIDDEN, NO_OBJECT])
@pytest.mark.parametrize("count", [12, 60])
async def test_many_flows_unshared_at_once_doubt_no_list_where_nothing_else_runs(
    scenario: Scenario,
    workspace: TinyWorkspace,
    clock: ManualClock,
    count: int,
    refusal: tuple[int, str],
) -> None:
    """More than are read at once are named one poll after another, and fire no outage."""
    flows = range(20, 20 + count)
    await begin(scenario, workspace, *flows)
    unshare(workspace, *flows, refusal=refusal)
    for _ in range(4):
        await clock.advance(30)
        with suppress(MonitorError):
            await scenario.poll("changes")
        assert doubted(scenario) == []
    if refusal == FORBIDDEN:
        assert unshared(scenario) == [str(flow) for flow in flows]
    await scenario.poll("changes")
    with suppress(MonitorError):
        await scenario.poll("reconciliation")

    assert doubted(scenario) == []
    assert scenario.live_state.confirmed[NAME, RunKind.JOB_GROUP] == clock.now()


async def test_runs_denied_with_their_flow_blind_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A workspace may deny what is no longer shared, as if it had been deleted."""
    await begin(scenario, workspace, 20, runs=4)
    await clock.advance(600)
    await scenario.poll("changes")
    await scenario.poll("reconciliation")
    unshare(workspace, 20, refusal=NO_OBJECT)
    for _ in range(2):
        await clock.advance(300)
        await scenario.poll("changes")
        await scenario.poll("reconciliation")

    assert doubted(scenario) == []


async def test_a_flow_unshared_while_its_list_is_cut_short_leaves_no_doubt(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Shown by its id the flow proved the list wrong; it proves nothing since that is refused."""
    await begin(scenario, workspace, 20)
    workspace.unlisted["flows"] = (20,)
    with suppress(MonitorError):
        await scenario.poll("names")
    assert doubted(scenario) == ["flows"]
    unshare(workspace, 20)
    for _ in range(2):
        await clock.advance(300)
        with suppress(MonitorError):
            await scenario.poll("names")

    assert (doubted(scenario), unshared(scenario)) == ([], ["20"])


async def test_a_list_is_doubted_where_the_flow_itself_is_shown(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Who sees the flow must see its runs: their list lies, whatever their ids answer."""
    await begin(scenario, workspace, 20)
    unshare(workspace, 20)
    del workspace.faults["flows/20"]
    await clock.advance(30)
    with pytest.raises(MonitorError):
        await scenario.poll("changes")

    assert (doubted(scenario), unshared(scenario)) == (["job groups"], [])


async def test_a_list_is_doubted_where_nothing_known_is_shown(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A token that sees nothing any more is no flow that is not shared."""
    await begin(scenario, workspace, 20)
    unshare(workspace, 20, KEPT)
    for poll in ("changes", "names"):
        await clock.advance(30)
        with pytest.raises(MonitorError):
            await scenario.poll(poll)

    assert (doubted(scenario), unshared(scenario)) == (["flows", "job groups"], [])


async def hide_a_run(scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock) -> None:
    """Hide flow 20 for half an hour, in which one of its runs ends and another one fails."""
    await begin(scenario, workspace, 20)
    unshare(workspace, 20)
    await clock.advance(30)
    await scenario.poll("changes")
    put(workspace, 201, 20, "Complete")
    put(workspace, 202, 20, "Failed")
    unshare(workspace, 20)
    for _ in range(3):
        await clock.advance(600)
        await scenario.poll("changes")
    assert unshared(scenario) == ["20"]
    share_again(workspace)


@pytest.mark.parametrize("poll", ["names", "reconciliation"])
async def test_a_flow_that_is_shared_again_is_unknown_until_its_runs_are_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, poll: str
) -> None:
    """Nothing is judged of it before a list has shown what it did while it was hidden."""
    await hide_a_run(scenario, workspace, clock)
    await scenario.poll(poll)
    assert unshared(scenario) == ["20"]

    await clock.advance(10)
    await scenario.poll("changes")
    assert unshared(scenario) == []
    assert scenario.live_state.confirmed[NAME, RunKind.JOB_GROUP] == clock.now()
    assert {"201:succeeded", "202:failed"} <= set(await scenario.run_events())


async def test_a_flow_that_is_shared_again_stays_unknown_while_its_runs_cannot_be_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Neither a list that fails nor a restart forgets from where on it is to be read."""
    await hide_a_run(scenario, workspace, clock)
    await scenario.poll("names")
    workspace.faults["jobLibrary"] = (503, "{}")
    with pytest.raises(MonitorError):
        await scenario.poll("changes")
    assert unshared(scenario) == ["20"]
    await scenario.restart()
    share_again(workspace)
    await scenario.poll("names")
    await clock.advance(10)
    await scenario.poll("changes")

    assert unshared(scenario) == []
    assert {"201:succeeded", "202:failed"} <= set(await scenario.run_events())


async def test_a_flow_that_is_hidden_again_is_read_from_where_it_was_hidden_first(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It was shown for a moment, in which no list of its runs was read."""
    await hide_a_run(scenario, workspace, clock)
    await scenario.poll("names")
    unshare(workspace, 20)
    for _ in range(2):
        await clock.advance(300)
        with suppress(MonitorError):
            await scenario.poll("names")
    await scenario.poll("changes")
    assert unshared(scenario) == ["20"]
    share_again(workspace)
    await scenario.poll("names")
    await scenario.poll("changes")

    assert unshared(scenario) == []
    assert {"201:succeeded", "202:failed"} <= set(await scenario.run_events())


async def test_a_flow_that_is_shared_again_where_no_runs_are_listed_is_known_at_once(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """No list could show what it did, and its named runs are read by their ids."""
    await hide_a_run(scenario, workspace, clock)
    status = scenario.live_state.workspaces[NAME]
    scenario.live_state.update_workspace(
        NAME, capabilities=status.capabilities - {Capability.LIST_CHANGES}
    )
    await scenario.poll("names")

    assert unshared(scenario) == []


async def test_a_flow_is_known_to_be_unshared_over_a_restart(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The next life finds it by its first lists, and doubts none of them for its sake."""
    await begin(scenario, workspace, 20)
    unshare(workspace, 20)
    await clock.advance(30)
    await scenario.poll("changes")
    await scenario.restart()
    await scenario.poll("names")
    assert unshared(scenario) == ["20"]
    await clock.advance(30)
    await scenario.poll("changes")

    assert (doubted(scenario), unshared(scenario)) == ([], ["20"])
