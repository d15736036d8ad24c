"""All flows, or all plans, are refused: their runs are hidden with them, unless one is shown."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import DoubtedListError, MonitorError
from monitor.model.live_state import Reachability
from monitor.model.runs import RunKind
from monitor.outputs.freshness import UNSEEN_FACTOR, knows_what_runs
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario, until
from tests.polling.test_polling_lying_lists import doubted
from tests.polling.test_polling_unshared_pipelines import (
    KEPT,
    begin,
    put,
    share_again,
    unshare,
)
from tests.polling.tiny_workspace import FORBIDDEN, NO_OBJECT, OVERLOADED, TinyWorkspace

OF_FLOWS = {RunKind.JOB_GROUP, RunKind.FLOW_RUN}
STALE = timedelta(seconds=200)
RUN = 101  # of the flow that is kept, which is the only one


async def in_turn(scenario: Scenario, clock: ManualClock, *polls: str) -> None:
    """Let five minutes pass, and run the polls, whether they fail or not."""
    await clock.advance(300)
    for poll in polls:
        with suppress(MonitorError):
            await scenario.poll(poll)


def unwatched(scenario: Scenario) -> set[RunKind]:
    view = scenario.live_state.view
    return {kind for kind in RunKind if view.why_unwatched(NAME, kind) is not None}


def is_known(scenario: Scenario, clock: ManualClock, kind: RunKind = RunKind.JOB_GROUP) -> bool:
    """True where the retained state of the only pipeline says that it is known what runs."""
    active = scenario.live_state.active
    confirmed = [active[key].confirmed_at for key in scenario.context.active_keys(kind)]
    scenario.live_state.update_workspace(
        NAME, reachability=Reachability.DEGRADED
    )  # no poller judges
    return knows_what_runs(
        scenario.live_state.workspaces[NAME],
        kind,
        is_unread=scenario.live_state.view.is_unread(NAME, kind),
        oldest_at=min(confirmed, default=None),
        listed_at=scenario.live_state.confirmed.get((NAME, kind)),
        known_since=clock.now() - STALE,
        seen_since=clock.now() - UNSEEN_FACTOR * STALE,
    )


async def begin_a_long_run(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, *, flow_run: int | None = None
) -> None:
    """Begin a run whose last write is long past: no list of changes needs to show it."""
    await begin(scenario, workspace)
    put(workspace, RUN, KEPT)
    if flow_run is not None:
        workspace.put_flow_run(flow_run, flow={"id": KEPT})
        workspace.put_job_group(RUN, flowRun={"id": flow_run})
    await scenario.poll("changes")
    await in_turn(scenario, clock, "changes", "reconciliation", "names")
    assert is_known(scenario, clock)


def refuse_flow(workspace: TinyWorkspace) -> None:
    """Refuse the flow and not its runs."""
    workspace.unlisted["flows"] = (KEPT,)
    workspace.faults[f"flows/{KEPT}"] = FORBIDDEN


@pytest.mark.parametrize("refusal", [FORBIDDEN, NO_OBJECT])
async def test_the_only_flow_hides_its_active_run(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, refusal: tuple[int, str]
) -> None:
    """The list of changes still comes, empty; it confirms nothing, and the state is unknown."""
    await begin_a_long_run(scenario, workspace, clock)
    unshare(workspace, KEPT)
    workspace.faults[f"jobGroups/{RUN}.*"] = refusal
    await in_turn(scenario, clock, "changes", "reconciliation", "names")
    found_at = clock.now()
    await in_turn(scenario, clock, "changes", "reconciliation")

    assert doubted(scenario) == ["flows"]
    assert unwatched(scenario) == OF_FLOWS
    assert scenario.live_state.confirmed[NAME, RunKind.JOB_GROUP] <= found_at
    assert not is_known(scenario, clock)


async def test_the_only_flow_hides_its_flow_run(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Neither kind of its runs is known any more, although both were active."""
    await begin_a_long_run(scenario, workspace, clock, flow_run=7)
    unshare(workspace, KEPT)
    workspace.faults["flowRuns/7.*"] = FORBIDDEN
    await in_turn(scenario, clock, "changes", "reconciliation", "names")
    await in_turn(scenario, clock, "changes", "reconciliation")

    assert unwatched(scenario) == OF_FLOWS
    assert not any(is_known(scenario, clock, kind) for kind in OF_FLOWS)


async def test_the_only_flow_hides_all_runs_where_none_is_shown(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Whatever runs now stays unseen, and its state unknown, until the flow is shown again."""
    await begin(scenario, workspace)
    unshare(workspace, KEPT)
    for _ in range(2):
        await in_turn(scenario, clock, "changes", "names")
    assert doubted(scenario) == ["flows"]
    assert unwatched(scenario) == OF_FLOWS
    assert not is_known(scenario, clock)
    share_again(workspace)
    await in_turn(scenario, clock, "names", "changes")

    assert doubted(scenario) == []
    assert is_known(scenario, clock)


async def test_the_only_flow_hides_all_runs_where_no_list_shows_runs(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Where runs are read by their ids only, reading none of them confirms nothing either."""
    await begin(scenario, workspace)
    listing = scenario.live_state.workspaces[NAME].capabilities
    without_list = listing - {Capability.LIST_CHANGES}
    scenario.live_state.update_workspace(NAME, capabilities=without_list)
    await in_turn(scenario, clock, "by_id")
    confirmed_at = scenario.live_state.confirmed[NAME, RunKind.JOB_GROUP]
    assert confirmed_at == clock.now()
    unshare(workspace, KEPT)
    await in_turn(scenario, clock, "names", "by_id")

    assert scenario.live_state.confirmed[NAME, RunKind.JOB_GROUP] == confirmed_at
    assert not is_known(scenario, clock)


async def test_runs_of_all_hidden_flows_are_reported_once_one_is_shown(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Also what ended before the list of flows was read: a list came empty before the doubt."""
    await begin(scenario, workspace)
    await scenario.poll("changes")
    workspace.unlisted = {"flows": (KEPT,), "jobLibrary": workspace.EVERYTHING}
    workspace.faults |= {f"flows/{KEPT}": FORBIDDEN, "jobGroups/.*": FORBIDDEN}
    await clock.advance(1)
    put(workspace, RUN, KEPT, "Failed")
    await in_turn(scenario, clock, "changes", "reconciliation")
    await in_turn(scenario, clock, "changes", "names")
    put(workspace, RUN + 1, KEPT, "Failed")
    await in_turn(scenario, clock, "changes", "reconciliation")
    share_again(workspace)
    await in_turn(scenario, clock, "names", "changes")

    assert {f"{RUN}:failed", f"{RUN + 1}:failed"} <= set(await scenario.run_events())


async def test_a_list_from_before_the_flow_was_shown_again_is_not_believed(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It was requested while its rows were hidden, and answers afterwards."""
    await begin(scenario, workspace)
    unshare(workspace, KEPT)
    await in_turn(scenario, clock, "changes", "names")
    before = scenario.polls.changes.watermark.at
    workspace.holds["jobLibrary"] = asyncio.Event()
    requests = workspace.count("jobLibrary")
    late = asyncio.create_task(scenario.polls.changes.poll(), name="a late list")
    await until(lambda: workspace.count("jobLibrary") > requests)
    await clock.advance(1)
    share_again(workspace)
    await scenario.poll("names")
    assert doubted(scenario) == []
    workspace.holds["jobLibrary"].set()
    with pytest.raises(DoubtedListError):
        await late

    assert scenario.polls.changes.watermark.at == before


async def test_runs_are_hidden_over_a_restart(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The next life believes no list of runs before it has read that of flows."""
    await begin(scenario, workspace)
    await scenario.poll("changes")
    unshare(workspace, KEPT)
    await in_turn(scenario, clock, "changes", "names")
    remembered, at = (
        scenario.live_state.workspaces[NAME].doubted,
        scenario.polls.changes.watermark.at,
    )
    await scenario.restart()
    scenario.live_state.update_workspace(NAME, doubted=remembered)
    with pytest.raises(DoubtedListError):
        await scenario.poll("changes")
    await in_turn(scenario, clock, "names")
    with pytest.raises(DoubtedListError):
        await scenario.poll("changes")
    assert (unwatched(scenario), scenario.polls.changes.watermark.at) == (OF_FLOWS, at)

    await scenario.restart()
    scenario.live_state.update_workspace(NAME, doubted=remembered)
    share_again(workspace)
    await in_turn(scenario, clock, "names", "changes")
    assert (unwatched(scenario), is_known(scenario, clock)) == (set(), True)


@pytest.mark.parametrize("status", ["InProgress", "Complete"])
async def test_a_run_that_is_shown_hides_none_with_the_only_flow(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, status: str
) -> None:
    """A right to the flow may be withdrawn without that to its runs, active or ended since."""
    await begin(scenario, workspace)
    put(workspace, RUN, KEPT)
    await scenario.poll("changes")
    refuse_flow(workspace)
    await in_turn(scenario, clock, "changes", "names")
    put(workspace, RUN, KEPT, status)
    await in_turn(scenario, clock, "changes", "names")

    assert doubted(scenario) == ["flows"]
    assert unwatched(scenario) == set()
    assert is_known(scenario, clock)


async def test_an_active_run_that_answers_by_its_id_hides_none(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """No list needs to show it: it is asked before its kind is taken for hidden, and each time."""
    await begin_a_long_run(scenario, workspace, clock)
    refuse_flow(workspace)
    await in_turn(scenario, clock, "changes", "names")
    assert (doubted(scenario), unwatched(scenario)) == (["flows"], set())
    await scenario.poll("changes")
    assert scenario.live_state.confirmed[NAME, RunKind.JOB_GROUP] == clock.now()

    unshare(workspace, KEPT)
    await in_turn(scenario, clock, "changes", "names")
    assert unwatched(scenario) == OF_FLOWS


async def test_a_run_that_a_list_shows_ends_the_doubt_of_its_kind_at_once(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The list of flows need not be read again: runs are seen."""
    await begin(scenario, workspace)
    refuse_flow(workspace)
    await in_turn(scenario, clock, "changes", "names")
    assert unwatched(scenario) == OF_FLOWS
    await clock.advance(1)
    put(workspace, RUN, KEPT)
    for _ in range(2):  # what is shown for the first time was not known
        await clock.advance(30)
        with suppress(MonitorError):
            await scenario.poll("changes")

    assert (doubted(scenario), unwatched(scenario)) == (["flows"], set())
    assert scenario.live_state.confirmed[NAME, RunKind.JOB_GROUP] == clock.now()


async def test_a_run_that_cannot_be_read_now_changes_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """An overloaded server neither hides runs nor shows them."""
    await begin_a_long_run(scenario, workspace, clock)
    unshare(workspace, KEPT)
    workspace.faults[f"jobGroups/{RUN}.*"] = OVERLOADED
    await in_turn(scenario, clock, "names")
    assert (doubted(scenario), unwatched(scenario)) == (["flows"], set())

    workspace.faults[f"jobGroups/{RUN}.*"] = FORBIDDEN
    await in_turn(scenario, clock, "names")
    assert unwatched(scenario) == OF_FLOWS
    workspace.faults[f"jobGroups/{RUN}.*"] = OVERLOADED
    await in_turn(scenario, clock, "names")
    assert unwatched(scenario) == OF_FLOWS


@pytest.mark.parametrize("is_active", [False, True])
async def test_the_only_plan_hides_all_plan_runs_where_none_is_shown(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, *, is_active: bool
) -> None:
    """Runs of flows are seen as ever."""
    workspace.tables["plans"][50] = {"id": 50, "name": "plan 50"}
    await begin(scenario, workspace)
    if is_active:
        workspace.put_plan_run(RUN)
    await scenario.poll("plan_runs")
    await in_turn(scenario, clock, "changes", "plan_runs", "reconciliation", "names")
    workspace.unlisted |= {"plans": (50,), "planSnapshotRuns": (RUN,)}
    workspace.faults |= {
        "plans/50": FORBIDDEN,
        "plans/50/full": FORBIDDEN,
        f"planSnapshotRuns/{RUN}.*": FORBIDDEN,
    }
    for _ in range(2):
        await in_turn(scenario, clock, "changes", "plan_runs", "reconciliation", "names")

    assert doubted(scenario) == ["plans"]
    assert unwatched(scenario) == {RunKind.PLAN_RUN}
    assert not is_known(scenario, clock, RunKind.PLAN_RUN)
    assert is_known(scenario, clock)
