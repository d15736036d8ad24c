"""Names and schedules: a slow refresh that forgets only what is really gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.model.errors import TryLaterError
from monitor.model.runs import PipelineKind
from monitor.workspace.priority import Priority
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario
from tests.polling.tiny_workspace import (
    FORBIDDEN,
    NO_OBJECT,
    NO_ROUTE,
    OVERLOADED,
    Row,
    TinyWorkspace,
)


def names(scenario: Scenario) -> set[tuple[str, str | None]]:
    return {(pipeline.id, pipeline.name) for pipeline in scenario.live_state.view.pipelines()}


async def test_names_follow_a_rename(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """Flows and plans carry the names that the workspace shows now."""
    workspace.tables["flows"] = {11: {"id": 11, "name": "Sales"}}
    workspace.tables["plans"] = {13: {"id": 13, "name": "Nightly"}}
    await scenario.polls.pipeline_names.poll()
    workspace.tables["flows"][11]["name"] = "Revenue"
    await scenario.polls.pipeline_names.poll()

    assert names(scenario) == {("11", "Revenue"), ("13", "Nightly")}


async def test_a_deleted_pipeline_is_forgotten_when_its_id_is_denied_too(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """List and id agree, also when a restart lay between; a list alone forgets nothing."""
    workspace.tables["flows"] = {11: {"id": 11, "name": "A"}, 12: {"id": 12, "name": "B"}}
    await scenario.polls.pipeline_names.poll()
    del workspace.tables["flows"][12]
    await scenario.restart()
    workspace.faults["flows/12"] = FORBIDDEN
    scenario.live_state.name_pipeline("marketing", PipelineKind.FLOW, "12", "B")
    for _ in range(3):
        await scenario.polls.pipeline_names.poll()
    assert ("12", "B") in names(scenario)

    workspace.faults.clear()
    await scenario.polls.pipeline_names.poll()
    assert names(scenario) == {("11", "A")}


async def test_a_schedule_does_not_bring_a_deleted_flow_back(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """It names a flow that no list shows, and one that was deleted no more."""
    workspace.tables["flows"] = {12: {"id": 12, "name": "B"}}
    workspace.tables["schedules"][5] = {
        "id": 5,
        "name": "every night",
        "triggers": [{"timeBased": {"hourly": {"minuteOfHour": 15}, "timezone": "UTC"}}],
        "tasks": [{"runFlow": {"flowId": 12}}, {"runFlow": {"flowId": 13}}],
    }
    for _ in range(2):
        await scenario.polls.pipeline_names.poll()
        await scenario.poll("schedules")
    assert names(scenario) == {("12", "B"), ("13", None)}
    del workspace.tables["flows"][12]
    for _ in range(3):
        await scenario.polls.pipeline_names.poll()
        await scenario.poll("schedules")
    assert names(scenario) == {("13", None)}

    gone = {"flowId": 12, "id": 12, "name": "B", "deleted_at": "2026-11-21T10:00:00.000Z"}
    workspace.tables["schedules"][5]["tasks"] = [{"runFlow": gone}]
    await scenario.restart()
    await scenario.poll("schedules")
    assert names(scenario) == set()


async def test_folders_that_cannot_be_listed_hold_up_no_owner(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Flows get their owners, and keep the folder names that are known; the poll still fails."""
    owner = {"email": "ada@example.org"}
    workspace.tables["flows"] = {
        11: {"id": 11, "name": "A", "folder": {"id": 3}, "creator": owner},
    }
    workspace.documents["folders"] = {"data": [{"id": 3, "name": "Finance"}]}
    await scenario.polls.pipeline_names.poll()
    workspace.faults["folders"] = OVERLOADED
    workspace.tables["flows"][12] = {
        "id": 12, "name": "B", "folder": {"id": 4}, "creator": owner,
    }  # fmt: skip
    with pytest.raises(TryLaterError):
        await scenario.polls.pipeline_names.poll()

    placed = {
        pipeline.id: (pipeline.folder, pipeline.owner)
        for pipeline in scenario.live_state.view.pipelines()
    }
    assert placed == {"11": ("Finance", "ada@example.org"), "12": (None, "ada@example.org")}


async def test_a_failed_list_forgets_nothing(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """An outage is not a deletion."""
    workspace.tables["flows"] = {11: {"id": 11, "name": "A"}}
    await scenario.polls.pipeline_names.poll()
    workspace.faults["flows"] = OVERLOADED
    for _ in range(3):
        with pytest.raises(TryLaterError):
            await scenario.polls.pipeline_names.poll()

    assert names(scenario) == {("11", "A")}


async def test_a_pipeline_that_was_never_listed_stays(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Another person's flow, which runs but which the list does not show, keeps its name."""
    workspace.put_job_group(1, "Complete")
    await scenario.polls.changes.poll()
    for _ in range(3):
        await scenario.polls.pipeline_names.poll()

    assert scenario.live_state.names.name_of(("marketing", PipelineKind.FLOW, "11")) == "Sales"


async def test_schedules_are_known_with_what_they_start(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A schedule's triggers, state and pipelines are overwritten by each complete list."""
    daily = {"hourOfDay": 3, "minuteOfHour": 15, "onlyWorkingDays": False}
    workspace.tables["schedules"][5] = {
        "id": 5,
        "name": "every night",
        "enabled": False,
        "disableReason": "owner left",
        "triggers": [{"timeBased": {"daily": daily, "timezone": "Europe/Berlin"}}],
        "tasks": [{"runFlow": {"flowId": 11}}],
        "status": "",
    }
    await scenario.poll("schedules")
    (schedule,) = scenario.live_state.workspaces["marketing"].schedules
    workspace.tables["schedules"].clear()
    await scenario.poll("schedules")

    assert (schedule.name, schedule.is_enabled, schedule.disable_reason) == (
        "every night",
        False,
        "owner left",
    )
    assert [pipeline.id for pipeline in schedule.pipelines] == ["11"]
    assert scenario.live_state.workspaces["marketing"].schedules == ()


def place(scenario: Scenario, pipeline_id: str) -> tuple[str | None, str | None]:
    (one,) = (
        pipeline for pipeline in scenario.live_state.view.pipelines() if pipeline.id == pipeline_id
    )
    return one.folder, one.owner


async def test_a_flow_has_its_folders_name_and_its_owner(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Where the list shows a folder's id alone, one list of folders names them all."""
    ann = {"id": 1, "email": "ann@example.com"}
    workspace.tables["flows"] = {
        11: {"id": 11, "name": "A", "folder": {"id": 5}, "creator": ann},
        12: {"id": 12, "name": "B", "folder": {"id": 6, "name": "Told"}},
        13: {"id": 13, "name": "C", "folder": {"id": 7}},
        14: {"id": 14, "name": "D", "folder": None},
        15: {"id": 15, "name": "E", "folder": 5},
    }
    workspace.tables["folders"] = {5: {"id": 5, "name": "Finance"}}
    workspace.tables["plans"] = {16: {"id": 16, "name": "P", "creator": ann}}
    await scenario.polls.pipeline_names.poll()

    assert place(scenario, "11") == ("Finance", "ann@example.com")
    assert place(scenario, "12") == ("Told", None)
    assert place(scenario, "13") == ("7", None)
    assert place(scenario, "14") == (None, None)
    assert place(scenario, "15") == ("Finance", None)
    assert place(scenario, "16") == (None, "ann@example.com")
    assert workspace.count("folders") == 1


async def test_folders_are_read_only_where_they_are_needed(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """No flow in a folder: no list of folders. No such list: the id stands for the name."""
    workspace.tables["flows"] = {11: {"id": 11, "name": "A", "folder": None}}
    await scenario.polls.pipeline_names.poll()
    assert workspace.count("folders") == 0

    workspace.faults["folders"] = NO_ROUTE
    workspace.tables["flows"][11]["folder"] = {"id": 5}
    await scenario.polls.pipeline_names.poll()
    assert place(scenario, "11") == ("5", None)


async def test_a_reading_of_schedules_shows_when_it_began_and_their_owner(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A change before that instant is in the reading; a failed reading moves nothing."""
    workspace.offset = timedelta(minutes=30)
    workspace.documents["people/current"] = {"id": 1, "email": "ann@example.com"}
    workspace.tables["schedules"] = {
        1: {
            "id": 1,
            "name": "nightly",
            "enabled": True,
            "createdBy": 1,
            "updatedAt": "2026-11-01T10:00:00.000Z",
            "triggers": [],
            "tasks": [],
        }
    }
    await scenario.client.requester.request("getOpenApiSpec", priority=Priority.CHANGES)
    before = scenario.context.workspace_now()
    await scenario.poll("schedules")
    status = scenario.live_state.workspaces["marketing"]
    (schedule,) = status.schedules

    assert status.schedules_read_at == before
    assert status.schedules_of == "ann@example.com"
    assert (schedule.owner_id, schedule.updated_at) == ("1", datetime(2026, 11, 1, 10, tzinfo=UTC))

    await clock.advance(300)
    workspace.faults["schedules"] = OVERLOADED
    with pytest.raises(TryLaterError):
        await scenario.poll("schedules")
    assert scenario.live_state.workspaces["marketing"].schedules_read_at == before
    assert workspace.count("people/current") == 1


async def test_a_schedule_that_cannot_be_read_is_not_gone(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A row that makes no sense keeps what was known of it; one that is missing is gone."""
    rows: dict[int, Row] = {
        number: {"id": number, "name": f"s{number}", "triggers": [], "tasks": []}
        for number in (1, 2)
    }
    workspace.tables["schedules"] = rows
    await scenario.poll("schedules")
    rows[1]["name"] = {"no": "name"}
    await scenario.poll("schedules")
    assert {schedule.id for schedule in scenario.live_state.workspaces["marketing"].schedules} == {
        "1",
        "2",
    }

    del rows[1]
    await scenario.poll("schedules")
    assert {schedule.id for schedule in scenario.live_state.workspaces["marketing"].schedules} == {
        "2"
    }


async def test_each_owner_is_read_once_where_the_list_shows_an_id_alone(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A person that is gone is not asked for again, and keeps the id for a name."""
    workspace.tables["flows"] = {
        11: {"id": 11, "name": "A", "creator": {"id": 3}},
        12: {"id": 12, "name": "B", "creator": {"id": 4}},
        13: {"id": 13, "name": "C", "creator": {"id": 3}},
    }
    workspace.documents["people/3"] = {"id": 3, "email": "cy@example.com"}
    for _ in range(2):
        await scenario.polls.pipeline_names.poll()

    assert place(scenario, "11") == place(scenario, "13") == (None, "cy@example.com")
    assert place(scenario, "12") == (None, "person 4")
    assert workspace.count("people/[34]") == 2


async def test_a_token_that_may_read_no_person_costs_one_request_a_list(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Flows keep the ids of their owners for names, and the lists succeed."""
    workspace.tables["flows"] = {
        id_: {"id": id_, "name": "A", "creator": {"id": id_}} for id_ in range(11, 31)
    }
    for id_ in range(11, 31):
        workspace.faults[f"people/{id_}"] = FORBIDDEN
    await scenario.polls.pipeline_names.poll()

    assert place(scenario, "11") == (None, "person 11")
    assert workspace.count("people/[0-9]+") <= 1


async def test_one_owner_who_is_refused_hides_no_other(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Who is refused keeps the id for a name, and the next list reads all whom it may."""
    workspace.tables["flows"] = {
        id_: {"id": id_, "name": "A", "creator": {"id": id_}} for id_ in range(11, 15)
    }
    for id_ in (11, 13):
        workspace.faults[f"people/{id_}"] = FORBIDDEN
    for id_ in (12, 14):
        workspace.documents[f"people/{id_}"] = {"id": id_, "email": f"{id_}@example.com"}
    for _ in range(2):
        await scenario.polls.pipeline_names.poll()

    owners = [place(scenario, str(id_))[1] for id_ in range(11, 15)]
    assert owners == ["person 11", "12@example.com", "person 13", "14@example.com"]


async def test_an_owner_who_is_not_shown_is_asked_for_once(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Several lists ask who owns the token, one after the other."""
    workspace.faults["people/current"] = FORBIDDEN
    workspace.tables["flows"] = {11: {"id": 11, "name": "Sales"}}
    for poll in ("names", "schedules"):
        await scenario.poll(poll)
    assert workspace.count("people/current") == 1


async def test_an_owner_who_is_not_there_is_asked_for_again_after_a_minute(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """No list asks before that, and the first one after it learns who it is."""
    workspace.faults["people/current"] = NO_OBJECT
    for seconds in (0, 59):
        await clock.advance(seconds)
        for poll in ("names", "schedules"):
            await scenario.poll(poll)
    assert workspace.count("people/current") == 1
    workspace.faults.clear()
    workspace.documents["people/current"] = {"id": 1, "email": "ann@example.com"}
    await clock.advance(1)
    await scenario.poll("schedules")
    assert workspace.count("people/current") == 2
    assert scenario.live_state.workspaces["marketing"].schedules_of == "ann@example.com"
