"""Names and schedules: a slow refresh that forgets only what is really gone."""

from __future__ import annotations

import pytest

from monitor.model.errors import TryLaterError
from monitor.model.runs import PipelineKind
from tests.polling.conftest import Scene
from tests.polling.tiny_workspace import OVERLOADED, TinyWorkspace


def names(scene: Scene) -> set[tuple[str, str | None]]:
    return {(one.id, one.name) for one in scene.knowledge.view.pipelines()}


async def test_names_follow_a_rename(scene: Scene, workspace: TinyWorkspace) -> None:
    """Flows and plans carry the names that the workspace shows now."""
    workspace.tables["flows"] = {11: {"id": 11, "name": "Sales"}}
    workspace.tables["plans"] = {13: {"id": 13, "name": "Nightly"}}
    await scene.parts.inventory.poll()
    workspace.tables["flows"][11]["name"] = "Revenue"
    await scene.parts.inventory.poll()

    assert names(scene) == {("11", "Revenue"), ("13", "Nightly")}


async def test_a_deleted_pipeline_is_forgotten_after_two_lists(
    scene: Scene, workspace: TinyWorkspace
) -> None:
    """One short list forgets nothing, the second does, also when a restart lay between."""
    workspace.tables["flows"] = {11: {"id": 11, "name": "A"}, 12: {"id": 12, "name": "B"}}
    await scene.parts.inventory.poll()
    del workspace.tables["flows"][12]
    await scene.parts.inventory.poll()
    assert ("12", "B") in names(scene)

    await scene.parts.inventory.poll()
    assert names(scene) == {("11", "A")}


async def test_a_failed_list_forgets_nothing(scene: Scene, workspace: TinyWorkspace) -> None:
    """An outage is not a deletion."""
    workspace.tables["flows"] = {11: {"id": 11, "name": "A"}}
    await scene.parts.inventory.poll()
    workspace.faults["flows"] = OVERLOADED
    for _ in range(3):
        with pytest.raises(TryLaterError):
            await scene.parts.inventory.poll()

    assert names(scene) == {("11", "A")}


async def test_a_pipeline_that_was_never_listed_stays(
    scene: Scene, workspace: TinyWorkspace
) -> None:
    """Somebody else's flow, which runs but which the list does not show, keeps its name."""
    workspace.put_job_group(1, "Complete")
    await scene.parts.changes.poll()
    for _ in range(3):
        await scene.parts.inventory.poll()

    assert scene.knowledge.name_of("marketing", PipelineKind.FLOW, "11") == "Sales"


async def test_schedules_are_known_with_what_they_start(
    scene: Scene, workspace: TinyWorkspace
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
    await scene.parts.schedules.poll()
    (known,) = scene.knowledge.workspaces["marketing"].schedules
    workspace.tables["schedules"].clear()
    await scene.parts.schedules.poll()

    assert (known.name, known.is_enabled, known.disable_reason) == (
        "every night",
        False,
        "owner left",
    )
    assert [one.id for one in known.pipelines] == ["11"]
    assert scene.knowledge.workspaces["marketing"].schedules == ()
