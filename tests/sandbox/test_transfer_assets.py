"""One person's assets become another's, and everything agrees on the owner."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.catalogue.operations import Edition
from monitor.model.triggers import HourlyTrigger
from monitor.sandbox.world.records.objects import Schedule, ScheduleTask
from monitor.sandbox.world.records.parts import AwsConfig
from monitor.sandbox.world.records.runs import NativeStatus
from tests.sandbox.http_workspace import (
    ADMIN_TOKEN,
    COLLEAGUE_TOKEN,
    OWNER_TOKEN,
    Answer,
    Workspace,
    open_workspace,
)

TRANSFER = "/v4/workspaces/current/transfer"


async def transfer(workspace: Workspace, body: Any, *, token: str = ADMIN_TOKEN) -> Answer:
    return await workspace.request("PATCH", TRANSFER, body=body, token=token)


async def ids(workspace: Workspace, path: str, token: str) -> list[int]:
    return (await workspace.request("GET", path, token=token)).ids


def both(workspace: Workspace) -> dict[str, int]:
    things = workspace.things
    return {"fromPersonId": things.owner.id, "toPersonId": things.colleague.id}


async def test_lists_of_both_people_change() -> None:
    """A transferred object is in the receiver's lists and counts, and in the giver's no more."""
    async with open_workspace() as workspace:
        things, world = workspace.things, workspace.world
        trigger = HourlyTrigger(minute_of_hour=5)
        task = ScheduleTask(kind="flow", target_id=things.orders.id)
        schedule = world.create(
            Schedule, by=things.owner.id, name="hourly", triggers=(trigger,), tasks=(task,)
        )
        answer = await transfer(workspace, both(workspace))
        receiver = {
            path: await ids(workspace, path, COLLEAGUE_TOKEN)
            for path in ("/v4/flows", "/v4/plans", "/v4/schedules")
        }
        giver = [
            *await ids(workspace, "/v4/flows", OWNER_TOKEN),
            *await ids(workspace, "/v4/plans", OWNER_TOKEN),
            *await ids(workspace, "/v4/schedules", OWNER_TOKEN),
        ]
        count = await workspace.request("GET", "/v4/flows/count", token=COLLEAGUE_TOKEN)
        path = f"/v4/flows/{things.orders.id}"
        flow = await workspace.request("GET", path, token=COLLEAGUE_TOKEN)

    assert (answer.status, answer.content) == (204, b"")
    assert receiver == {
        "/v4/flows": [things.stock.id, things.orders.id],
        "/v4/plans": [things.weekly.id, things.nightly.id],
        "/v4/schedules": [schedule.id],
    }
    assert giver == []
    assert count.body == {"count": 2}
    assert flow.body["creator"] == {"id": things.colleague.id}
    assert flow.body["updater"] == {"id": things.admin.id}


async def test_history_and_access_stay() -> None:
    """Runs go on naming who started them; tokens and AWS settings stay with their person."""
    async with open_workspace() as workspace:
        things = workspace.things
        run = workspace.job_group(status=NativeStatus.COMPLETE)
        config = workspace.world.create(
            AwsConfig, by=things.owner.id, person_id=things.owner.id, credential_provider="default"
        )
        await transfer(workspace, both(workspace))
        read = await workspace.get(f"/v4/jobGroups/{run.id}")
        person = await workspace.get("/v4/people/current")

    assert read.body["creator"] == {"id": things.owner.id}
    assert config.creator_id == things.owner.id
    assert person.body["id"] == things.owner.id


async def test_a_receiver_who_shared_a_flow_owns_it_alone() -> None:
    """Nothing is shared with its own owner, and other collaborators keep their part."""
    async with open_workspace() as workspace:
        things = workspace.things
        things.orders.shared_with = frozenset({things.colleague.id, things.admin.id})
        await transfer(workspace, both(workspace))
        shared = await workspace.request(
            "GET", "/v4/flows", query={"flowsFilter": "shared"}, token=COLLEAGUE_TOKEN
        )

    assert things.orders.shared_with == {things.admin.id}
    assert shared.ids == []


async def test_people_may_be_named_by_their_addresses() -> None:
    """An e-mail address in any spelling of case stands for the id."""
    async with open_workspace() as workspace:
        answer = await transfer(
            workspace, {"fromEmail": "Owner@Example.com", "toEmail": "colleague@example.com"}
        )

        assert answer.status == 204
        assert workspace.things.orders.creator_id == workspace.things.colleague.id


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"fromPersonId": 999}, "fromPersonId"),
        ({"toPersonId": "unknown"}, "toPersonId"),
        ({"toPersonId": None}, "toPersonId"),
        ({"toPersonId": None, "toEmail": "who@example.com"}, "toEmail"),
        ({"toPersonId": 11}, "toPersonId"),
    ],
)
async def test_a_transfer_to_no_person_moves_nothing(changes: dict[str, Any], field: str) -> None:
    """The refusal names the field; so it does where both ends are one person."""
    async with open_workspace() as workspace:
        answer = await transfer(workspace, {**both(workspace), **changes})

        assert answer.is_refused(400, "ValidationFailed", field)
        assert workspace.things.orders.creator_id == workspace.things.owner.id


async def test_a_disabled_person_gives_but_does_not_receive() -> None:
    """Assets of a person who left can be moved, and none to them."""
    async with open_workspace() as workspace:
        things = workspace.things
        things.colleague.is_disabled = True
        refused = await transfer(workspace, both(workspace))
        back = {"fromPersonId": things.colleague.id, "toPersonId": things.owner.id}
        moved = await transfer(workspace, back)

        assert refused.is_refused(400, "ValidationFailed", "toPersonId", "disabled")
        assert moved.status == 204
        assert things.stock.creator_id == things.owner.id


@pytest.mark.parametrize("edition", [Edition.PC, Edition.PL, Edition.RL, Edition.LE])
async def test_every_edition_lets_only_administrators_transfer(
    edition: Edition,
) -> None:
    """All four editions have the operation; who is no administrator gets 403."""
    async with open_workspace(edition) as workspace:
        refused = await transfer(workspace, both(workspace), token=OWNER_TOKEN)
        moved = await transfer(workspace, both(workspace))

    assert refused.is_refused(403, "AccessControlException")
    assert moved.status == 204
