"""Names of recipes: lists of job groups show ids alone, and one list shows all names."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.model.errors import WorkspaceUnreachableError
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import FORBIDDEN, NO_ROUTE, OVERLOADED, TinyWorkspace

_LIST = "wrangledDatasets"
DAY = 86_400.0


def serve(workspace: TinyWorkspace, names: dict[int, str | None]) -> None:
    rows: list[dict[str, Any]] = [
        {"id": id_, "recipe": {"id": 1_000 + id_, "name": name}} for id_, name in names.items()
    ]
    workspace.documents[_LIST] = {"data": rows}


async def run_of(scenario: Scenario, workspace: TinyWorkspace, recipe_id: int, number: int) -> None:
    """Let a run of a recipe end, and be observed."""
    flow = {"id": recipe_id, "flow": {"id": 11, "name": "Sales"}}
    workspace.put_job_group(number, "Complete", wrangledDataset=flow)
    await scenario.polls.changes.poll()


async def read(scenario: Scenario) -> object:
    return await scenario.declared["recipes"].run()


async def name_of(scenario: Scenario, number: int) -> str | None:
    state = await scenario.state(number)
    assert state is not None
    assert state.recipe is not None
    return state.recipe.name


async def test_a_recipe_that_has_run_gets_its_name(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Later runs carry it, and the live state names it for the earlier ones."""
    serve(workspace, {45: "Clean orders", 46: "Never run"})
    await run_of(scenario, workspace, 45, 1)
    assert await name_of(scenario, 1) is None
    await read(scenario)
    await run_of(scenario, workspace, 45, 2)

    assert await name_of(scenario, 2) == "Clean orders"
    assert scenario.live_state.view.recipe_name(NAME, "45") == "Clean orders"
    assert scenario.live_state.view.recipe_name(NAME, "46") is None  # memory is for what runs


async def test_names_survive_a_restart(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """They are stored with the next commit, and the list is not read for them again."""
    serve(workspace, {45: "Clean orders"})
    await run_of(scenario, workspace, 45, 1)
    await read(scenario)
    await run_of(scenario, workspace, 45, 2)
    await scenario.restart()

    assert scenario.live_state.view.recipe_name(NAME, "45") == "Clean orders"
    assert await read(scenario) is False
    assert workspace.count(_LIST) == 1


async def test_the_list_is_read_only_where_it_can_show_a_name(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Not before a run, not for what it lacks, and once a day for what was renamed."""
    serve(workspace, {45: "Clean orders", 47: None})
    assert await read(scenario) is False
    for number, recipe in enumerate((45, 46, 47), start=1):
        await run_of(scenario, workspace, recipe, number)
    for _ in range(3):
        await read(scenario)
    assert workspace.count(_LIST) == 1

    await run_of(scenario, workspace, 48, 4)
    await read(scenario)
    assert workspace.count(_LIST) == 2
    serve(workspace, {45: "Clean all orders"})
    await clock.advance(DAY)
    await read(scenario)
    assert scenario.live_state.view.recipe_name(NAME, "45") == "Clean all orders"


@pytest.mark.parametrize("fault", [NO_ROUTE, FORBIDDEN, (400, "ValidationFailed")])
async def test_a_workspace_without_the_list_is_as_well_as_before(
    scenario: Scenario, workspace: TinyWorkspace, fault: tuple[int, str]
) -> None:
    """Some editions do not serve it: ids stand for names, and nothing counts as failed."""
    workspace.faults[_LIST] = fault
    await run_of(scenario, workspace, 45, 1)
    await read(scenario)
    asked = workspace.count(_LIST)
    assert await read(scenario) is False
    assert workspace.count(_LIST) == asked


async def test_an_outage_is_tried_again(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """A run that could not be read now is read by the next poll."""
    serve(workspace, {45: "Clean orders"})
    workspace.faults[_LIST] = OVERLOADED
    await run_of(scenario, workspace, 45, 1)
    with pytest.raises(WorkspaceUnreachableError):
        await read(scenario)
    workspace.faults.clear()
    await read(scenario)
    assert scenario.live_state.view.recipe_name(NAME, "45") == "Clean orders"
