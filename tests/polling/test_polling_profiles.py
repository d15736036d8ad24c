"""The quality of what finished job groups made, read once for each run."""

from __future__ import annotations

import pytest

from monitor.model.errors import NotAvailableError, TryLaterError
from monitor.model.inventory import ValueCounts
from monitor.polling.inventory.profiles import Profiles
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import NO_ROUTE, OVERLOADED, Row, TinyWorkspace

NO_PROFILE = (400, "ProfilingDataNotFoundException")


def profile(*columns: tuple[int, int, int]) -> Row:
    """Return a profile with the valid, mismatched and missing values of each column."""
    histograms = {
        f"column {number}": [
            {"key": key, "count": count}
            for key, count in zip(("VALID", "INVALID", "EMPTY"), counts, strict=True)
        ]
        for number, counts in enumerate(columns)
    }
    return {"profilerTypeCheckHistograms": histograms, "columnTypes": {}, "profilerRules": {}}


async def run(
    scenario: Scenario,
    workspace: TinyWorkspace,
    number: int,
    *,
    recipe: int = 45,
    status: str = "Complete",
) -> None:
    """Let a job group end, and the monitor see it."""
    dataset = {
        "id": recipe,
        "recipe": {"name": f"recipe {recipe}"},
        "flow": {"id": 11, "name": "Sales"},
    }
    workspace.put_job_group(number, status, wrangledDataset=dataset)
    await scenario.polls.changes.poll()


def read(scenario: Scenario) -> dict[str, tuple[str, ValueCounts]]:
    outputs = scenario.live_state.workspaces[NAME].inventory.outputs
    return {str(output.name): (output.run_id, output.counts) for output in outputs}


@pytest.fixture
def profiles(scenario: Scenario) -> Profiles:
    return Profiles(scenario.context, at_once=10, outputs=100)


async def test_the_newest_profile_of_each_output_is_read_once(
    scenario: Scenario, workspace: TinyWorkspace, profiles: Profiles
) -> None:
    """Its columns are added up; a newer run replaces it, and without one nothing is read."""
    workspace.documents["jobGroups/1/profileResults"] = profile((90, 6, 4), (100, 0, 0))
    workspace.documents["jobGroups/2/profileResults"] = profile((50, 0, 50))
    workspace.documents["jobGroups/3/profileResults"] = profile((10, 0, 0))
    await run(scenario, workspace, 1)
    await run(scenario, workspace, 2, recipe=46)
    has_read = [await profiles.poll() for _ in range(3)]
    first = read(scenario)
    await run(scenario, workspace, 3)
    await profiles.poll()

    assert has_read == [True, False, False]
    assert first == {
        "recipe 45": ("1", ValueCounts(valid=190, mismatched=6, missing=4)),
        "recipe 46": ("2", ValueCounts(valid=50, mismatched=0, missing=50)),
    }
    assert read(scenario)["recipe 45"] == ("3", ValueCounts(valid=10))
    assert workspace.count("jobGroups/./profileResults") == 3


async def test_a_run_without_a_profile_is_no_failure(
    scenario: Scenario, workspace: TinyWorkspace, profiles: Profiles
) -> None:
    """It is read once and keeps the report of the run before; so does a run that failed."""
    workspace.documents["jobGroups/1/profileResults"] = profile((1, 0, 0))
    workspace.faults["jobGroups/2/profileResults"] = NO_PROFILE
    await run(scenario, workspace, 1)
    await profiles.poll()
    await run(scenario, workspace, 2)
    for _ in range(2):
        await profiles.poll()
    await run(scenario, workspace, 3, status="Failed")
    await profiles.poll()

    assert read(scenario) == {"recipe 45": ("1", ValueCounts(valid=1))}
    assert workspace.count("jobGroups/2/profileResults") == 1
    assert workspace.count("jobGroups/3/profileResults") == 0


async def test_profiles_that_fail_for_now_are_read_next_time(
    scenario: Scenario, workspace: TinyWorkspace, profiles: Profiles
) -> None:
    """An outage costs no profile."""
    workspace.documents["jobGroups/1/profileResults"] = profile((1, 0, 0))
    workspace.faults["jobGroups/.*"] = OVERLOADED
    await run(scenario, workspace, 1)
    with pytest.raises(TryLaterError):
        await profiles.poll()
    workspace.faults.clear()
    await profiles.poll()

    assert read(scenario) == {"recipe 45": ("1", ValueCounts(valid=1))}


async def test_a_lost_operation_is_no_missing_profile(
    scenario: Scenario, workspace: TinyWorkspace, profiles: Profiles
) -> None:
    """The poll fails, so that the capability goes; with it goes what is shown."""
    workspace.documents["jobGroups/1/profileResults"] = profile((1, 0, 0))
    await run(scenario, workspace, 1)
    await profiles.poll()
    workspace.faults["jobGroups/.*/profileResults"] = NO_ROUTE
    await run(scenario, workspace, 2)
    with pytest.raises(NotAvailableError):
        await profiles.poll()
    profiles.forget()

    assert read(scenario) == {}


async def test_forgotten_profiles_are_read_again(
    scenario: Scenario, workspace: TinyWorkspace, profiles: Profiles
) -> None:
    """Once profiles are back, outputs without a newer run are shown as before."""
    workspace.documents["jobGroups/1/profileResults"] = profile((1, 0, 0))
    await run(scenario, workspace, 1)
    await profiles.poll()
    profiles.forget()
    await profiles.poll()

    assert read(scenario) == {"recipe 45": ("1", ValueCounts(valid=1))}


async def test_a_name_that_lists_leave_out_is_read_once(
    scenario: Scenario, workspace: TinyWorkspace, profiles: Profiles
) -> None:
    """An output goes by its recipe's name; where that cannot be had, its figures are shown."""
    incomplete = {"id": 45, "flow": {"id": 11, "name": "Sales"}}
    for number in (1, 2, 3):
        workspace.documents[f"jobGroups/{number}/profileResults"] = profile((number, 0, 0))
    workspace.faults["jobGroups/1"] = OVERLOADED
    shown = []
    for number in (1, 2, 3):
        workspace.put_job_group(number, "Complete", wrangledDataset=incomplete)
        await scenario.polls.changes.poll()
        named = {**incomplete, "recipe": {"name": "Clean sales"}}
        workspace.put_job_group(number, wrangledDataset=named, status="Complete")
        await profiles.poll()
        shown.append(read(scenario))
        workspace.put_job_group(number, wrangledDataset=incomplete, status="Complete")

    assert shown == [
        {"None": ("1", ValueCounts(valid=1))},
        {"Clean sales": ("2", ValueCounts(valid=2))},
        {"Clean sales": ("3", ValueCounts(valid=3))},
    ]
    assert workspace.count("jobGroups/2") == 1
    assert workspace.count("jobGroups/3") == 0


async def test_a_poll_costs_a_bounded_number_of_requests(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The next cycles read the others, each once."""
    few = Profiles(scenario.context, at_once=2, outputs=100)
    for number in range(1, 6):
        workspace.documents[f"jobGroups/{number}/profileResults"] = profile((number, 0, 0))
        await run(scenario, workspace, number, recipe=number)
    counts = []
    for _ in range(4):
        await few.poll()
        counts.append(workspace.count("jobGroups/./profileResults"))

    assert counts == [2, 4, 5, 5]
    assert len(read(scenario)) == 5


async def test_only_so_many_outputs_are_kept_in_mind(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The newest are kept; the others are neither kept nor requested again."""
    few = Profiles(scenario.context, at_once=10, outputs=2)
    for number in range(1, 4):
        workspace.documents[f"jobGroups/{number}/profileResults"] = profile((number, 0, 0))
        await run(scenario, workspace, number, recipe=number)
        await few.poll()
        await clock.advance(60)
    for _ in range(3):
        await few.poll()

    assert set(read(scenario)) == {"recipe 2", "recipe 3"}
    assert workspace.count("jobGroups/./profileResults") == 3


async def test_a_profile_that_cannot_be_read_holds_up_no_other(
    scenario: Scenario, workspace: TinyWorkspace, profiles: Profiles
) -> None:
    """The other outputs are read; this output is requested a bounded number of times."""
    workspace.documents["jobGroups/1/profileResults"] = profile((1, 0, 0))
    workspace.faults["jobGroups/2/profileResults"] = OVERLOADED
    await run(scenario, workspace, 1)
    await run(scenario, workspace, 2, recipe=46)
    for _ in range(scenario.settings.attempts - 1):
        with pytest.raises(TryLaterError):
            await profiles.poll()
        assert read(scenario) == {"recipe 45": ("1", ValueCounts(valid=1))}
    for _ in range(3):
        await profiles.poll()

    assert workspace.count("jobGroups/1/profileResults") == 1
    assert workspace.count("jobGroups/2/profileResults") == scenario.settings.attempts
