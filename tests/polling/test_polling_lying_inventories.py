"""Lists of flows, plans and schedules that lack what was listed before."""

from __future__ import annotations

from contextlib import suppress

import pytest

from monitor.catalogue.operations import Edition
from monitor.model.errors import DoubtedListError, TryLaterError
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import FORBIDDEN, OVERLOADED, Row, TinyWorkspace

DAY = 86_400
STAYS, OF_A_RUN = 900, 1_100  # flows that no test counts
POLLS = {"flows": "names", "plans": "names", "schedules": "schedules"}
ALL = pytest.mark.parametrize("table", ["flows", "plans", "schedules"])
ANN, BEN = {"id": 1, "email": "ann@example.com"}, {"id": 2, "email": "ben@example.com"}


def fill(workspace: TinyWorkspace, table: str, count: int) -> None:
    """Put so many objects into a table, and a flow which stays and so is recognized."""
    workspace.tables["flows"] = {STAYS: {"id": STAYS, "name": "stays"}}
    for number in range(1, count + 1):
        row: Row = {"id": number, "name": f"{table} {number}", "triggers": [], "tasks": []}
        workspace.tables[table][number] = row
        workspace.full_plans[number] = row


def shown(scenario: Scenario, table: str) -> set[int]:
    if table == "schedules":
        return {int(known.id) for known in scenario.live_state.workspaces[NAME].schedules}
    return {
        int(known.id) for known in scenario.live_state.view.pipelines() if f"{known.kind}s" == table
    } - {OF_A_RUN, STAYS}


def doubted(scenario: Scenario) -> list[str]:
    return [doubt.name for doubt in scenario.live_state.workspaces[NAME].doubted]


async def poll(scenario: Scenario, table: str, *, is_doubted: bool = False) -> None:
    if not is_doubted:
        await scenario.poll(POLLS[table])
        return
    with pytest.raises(DoubtedListError):
        await scenario.poll(POLLS[table])


@ALL
async def test_an_empty_list_removes_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, table: str
) -> None:
    """However often it comes, and after a restart too; a whole list ends the doubt."""
    fill(workspace, table, 5)
    await poll(scenario, table)
    read_at = scenario.live_state.workspaces[NAME].schedules_read_at
    workspace.unlisted[table] = workspace.EVERYTHING
    for _ in range(4):
        await clock.advance(600)
        await poll(scenario, table, is_doubted=True)
    assert shown(scenario, table) == {1, 2, 3, 4, 5}
    assert doubted(scenario) == [table]
    assert scenario.live_state.workspaces[NAME].schedules_read_at == read_at

    await scenario.restart()
    await poll(scenario, table, is_doubted=True)
    assert doubted(scenario) == [table]
    assert scenario.live_state.workspaces[NAME].schedules_read_at is None
    workspace.unlisted.clear()
    await poll(scenario, table)
    assert shown(scenario, table) == {1, 2, 3, 4, 5}
    assert doubted(scenario) == []


@ALL
async def test_a_shortened_list_costs_three_reads(
    scenario: Scenario, workspace: TinyWorkspace, table: str
) -> None:
    """And nothing of what it was not asked about is removed."""
    fill(workspace, table, 40)
    await poll(scenario, table)
    workspace.unlisted[table] = range(6, 41)
    before = len(workspace.requests)
    await poll(scenario, table, is_doubted=True)

    reads = {path for path, _ in workspace.requests[before:] if path.startswith(f"{table}/")}
    assert len(reads) == 3
    assert shown(scenario, table) == set(range(1, 41))


@ALL
async def test_a_mass_deletion_is_learned_within_the_budget(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, table: str
) -> None:
    """Five hundred deletions cost one read each, 24 at most after a list, and are no doubt."""
    fill(workspace, table, 501)
    await poll(scenario, table)
    workspace.tables[table] = {1: workspace.tables[table][1]}
    if table == "flows":
        workspace.tables[table][STAYS] = {"id": STAYS, "name": "stays"}
    workspace.full_plans.clear()
    for _ in range(23):
        await clock.advance(300)
        before = workspace.count(f"{table}/.*")
        with suppress(DoubtedListError):
            await scenario.poll(POLLS[table])
        assert workspace.count(f"{table}/.*") - before <= 24
        assert doubted(scenario) == []  # what it does show is known, so it is believed

    assert shown(scenario, table) == {1}
    assert workspace.count(f"{table}/.*") == 500


@ALL
async def test_flows_that_may_not_be_read_are_not_removed(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, table: str
) -> None:
    """A list that shows nothing it has shown, beside ids that are refused, is doubted for a day."""
    fill(workspace, table, 3)
    await poll(scenario, table)
    kept = shown(scenario, table)
    workspace.unlisted[table] = workspace.EVERYTHING
    workspace.faults[f"{table}/.*"] = FORBIDDEN
    workspace.tables["flows"][STAYS] = {"id": STAYS, "name": "stays"}
    for _ in range(4):
        await clock.advance(6 * 3_600 - 60)
        await poll(scenario, table, is_doubted=True)
    assert shown(scenario, table) == kept
    assert doubted(scenario) == [table]


@ALL
async def test_an_object_that_cannot_be_read_now_decides_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, table: str
) -> None:
    """A 503 shows nothing about the object, nor about the list."""
    fill(workspace, table, 2)
    await poll(scenario, table)
    del workspace.tables[table][2]
    workspace.faults[f"{table}/.*"] = OVERLOADED
    for _ in range(3):
        await clock.advance(600)
        with pytest.raises(TryLaterError):
            await scenario.poll(POLLS[table])

    assert shown(scenario, table) == {1, 2}


@ALL
async def test_another_persons_token_is_no_mass_deletion(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, table: str
) -> None:
    """A flow that it may not see is denied, not refused, in some workspaces: nothing is removed."""
    fill(workspace, table, 4)
    workspace.documents["people/current"] = ANN
    await poll(scenario, table)
    rows = workspace.tables[table]
    workspace.tables[table] = {77: {"id": 77, "name": "Ben's", "triggers": [], "tasks": []}}
    workspace.full_plans.clear()
    workspace.documents["people/current"] = BEN
    await scenario.restart()
    for _ in range(3):
        await clock.advance(600)
        await poll(scenario, table, is_doubted=True)
    (doubt,) = scenario.live_state.workspaces[NAME].doubted
    assert "ann@example.com owned the token, now ben@example.com does" in doubt.reason
    assert scenario.live_state.workspaces[NAME].schedules_read_at is None

    workspace.tables[table] = rows
    workspace.documents["people/current"] = ANN
    await poll(scenario, table)
    assert {1, 2, 3, 4} <= shown(scenario, table)
    assert doubted(scenario) == []


async def test_another_owner_is_accepted_after_an_hour(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A token that was changed for good is followed by what it shows."""
    fill(workspace, "schedules", 2)
    workspace.documents["people/current"] = ANN
    await poll(scenario, "schedules")
    workspace.tables["schedules"] = {77: {"id": 77, "name": "Ben's", "triggers": [], "tasks": []}}
    workspace.documents["people/current"] = BEN
    for _ in range(6):
        await poll(scenario, "schedules", is_doubted=True)
        await clock.advance(600)
    await poll(scenario, "schedules")

    status = scenario.live_state.workspaces[NAME]
    assert shown(scenario, "schedules") == {77}
    assert (status.schedules_of, status.doubted) == ("ben@example.com", ())


@ALL
async def test_a_deletion_of_everything_waits_for_something_known(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, table: str
) -> None:
    """An empty workspace that denies all it had may be another one."""
    fill(workspace, table, 4)
    workspace.tables["flows"].pop(STAYS)
    flow = {"id": OF_A_RUN, "name": "runs"}
    workspace.put_job_group(1, wrangledDataset={"id": 45, "flow": flow})
    await poll(scenario, table)
    await scenario.poll("changes")
    workspace.tables[table].clear()
    workspace.full_plans.clear()
    for _ in range(3):
        await clock.advance(600)
        await poll(scenario, table, is_doubted=True)
    assert shown(scenario, table) == {1, 2, 3, 4}

    await scenario.poll("reconciliation")  # shows the run, which was known before
    for _ in range(2):
        await clock.advance(600)
        with suppress(DoubtedListError):
            await scenario.poll(POLLS[table])
    assert shown(scenario, table) == set()
    assert doubted(scenario) == []


async def test_where_flows_cannot_be_read_singly_a_deletion_is_still_learned(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Edition PC lists flows only: what its list lacks for a day is forgotten."""
    await unbegun.begin(Edition.PC)
    fill(workspace, "flows", 2)
    await poll(unbegun, "flows")
    del workspace.tables["flows"][2]
    await poll(unbegun, "flows")
    assert shown(unbegun, "flows") == {1, 2}
    for _ in range(3):
        await clock.advance(DAY)
        await poll(unbegun, "flows")

    assert shown(unbegun, "flows") == {1}
