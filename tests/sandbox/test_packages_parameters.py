"""Environment parameters one by one and as a package, and macros."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.sandbox.world.records.objects import WriteSetting
from monitor.sandbox.world.records.parts import EnvironmentParameter, Macro
from tests.sandbox.http_workspace import (
    ADMIN_TOKEN,
    COLLEAGUE_TOKEN,
    OWNER_TOKEN,
    Workspace,
    open_workspace,
)
from tests.sandbox.packages import changed, fetch, fingerprint, send, tables_of

PARAMETERS = "/v4/environmentParameters"
PACKAGE = f"{PARAMETERS}/package"
MACROS = "/v4/macros"


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


def variable(value: Any) -> dict[str, Any]:
    return {"variable": {"value": value}}


async def create(workspace: Workspace, key: str, value: dict[str, Any]) -> int:
    answer = await workspace.post(PARAMETERS, {"overrideKey": key, "value": value})
    assert answer.status == 201, answer.content
    parameter_id = answer.body["id"]
    assert isinstance(parameter_id, int)
    return parameter_id


async def test_a_parameter_is_made_read_listed_and_deleted(workspace: Workspace) -> None:
    """It is shown as it was sent, to everybody, until it is deleted."""
    first = await create(workspace, "region", variable("north"))
    second = await create(workspace, "stage", variable("test"))
    workspace.token = COLLEAGUE_TOKEN

    read = await workspace.get(f"{PARAMETERS}/{first}")
    listed = await workspace.get(PARAMETERS, includeCount="true", sort="-id")

    assert (read.body["overrideKey"], read.body["value"]) == ("region", variable("north"))
    assert read.body["deleted_at"] is None
    assert (listed.ids, listed.body["count"]) == ([second, first], 2)
    assert (await workspace.get(PARAMETERS, filter="reg")).ids == [first]
    workspace.token = OWNER_TOKEN
    assert (await workspace.request("DELETE", f"{PARAMETERS}/{first}")).status == 204
    gone = await workspace.get(f"{PARAMETERS}/{first}")
    assert gone.is_refused(404, "DataNotFoundException")
    assert (await workspace.get(PARAMETERS)).ids == [second]
    deleted = await workspace.get(PARAMETERS, includeDeleted="true")
    assert deleted.ids == [second, first]
    assert deleted.body["data"][1]["deleted_at"] is not None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"value": {}}, "overrideKey"),
        ({"overrideKey": "", "value": {}}, "overrideKey"),
        ({"overrideKey": 5, "value": {}}, "overrideKey"),
        ({"overrideKey": "taken", "value": {}}, "overrideKey"),
        ({"overrideKey": "new"}, "value"),
        ({"overrideKey": "new", "value": "text"}, "value"),
    ],
)
async def test_the_error_names_a_bad_parameter(
    workspace: Workspace, body: dict[str, Any], field: str
) -> None:
    """A key is needed, once only, and a value is an object."""
    await create(workspace, "taken", {})

    answer = await workspace.post(PARAMETERS, body)

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')


async def test_a_parameter_belongs_to_who_made_it(workspace: Workspace) -> None:
    """Others cannot delete or overwrite it; an administrator can."""
    path = f"{PARAMETERS}/{await create(workspace, 'region', variable('north'))}"
    package = await fetch(workspace, PACKAGE)
    workspace.token = COLLEAGUE_TOKEN

    assert (await workspace.request("DELETE", path)).is_refused(403, "AccessControlException")
    assert (await send(workspace, PACKAGE, package)).is_refused(403, "AccessControlException")
    workspace.token = ADMIN_TOKEN
    assert (await workspace.request("DELETE", path)).status == 204


async def test_usage_is_shown_on_request(workspace: Workspace) -> None:
    """It counts what names the parameter; otherwise the field is null."""
    path = f"{PARAMETERS}/{await create(workspace, 'region', variable('north'))}"
    setting = next(workspace.world.shelf(WriteSetting).live())
    workspace.world.update(setting, path="gs://$env.region/out.csv")

    plain = await workspace.get(path)
    answer = await workspace.get(path, includeUsageInfo="true")
    listed = await workspace.get(PARAMETERS, includeUsageInfo="true")

    assert plain.body["usageInfo"] is None
    assert answer.body["usageInfo"]["writeSettings"] == 1
    assert answer.body["usageInfo"]["sqlScripts"] == 0
    assert listed.body["data"][0]["usageInfo"] == answer.body["usageInfo"]


async def test_parameters_travel_as_a_package(workspace: Workspace) -> None:
    """A package restores what was changed and deleted since, and keeps the ids that are left."""
    kept = await create(workspace, "region", variable("north"))
    lost = await create(workspace, "stage", variable("test"))
    package = await fetch(workspace, PACKAGE)
    parameter = workspace.world.shelf(EnvironmentParameter).get(kept)
    assert parameter is not None
    workspace.world.update(parameter, value=variable("south"))
    await workspace.request("DELETE", f"{PARAMETERS}/{lost}")

    answer = await send(workspace, PACKAGE, package)

    assert answer.status == 201, answer.content
    assert [row["overrideKey"] for row in answer.body["data"]] == ["region", "stage"]
    assert answer.body["data"][0]["id"] == kept
    assert parameter.value == variable("north")
    again = await fetch(workspace, PACKAGE)
    assert tables_of(again) == tables_of(package)


async def test_json_is_accepted_instead_of_a_file(workspace: Workspace) -> None:
    """The rows of a package may be sent as they are; anything else names ``data``."""
    rows = [{"overrideKey": "region", "value": variable("north")}]

    imported = await workspace.post(PACKAGE, {"data": rows})

    assert imported.status == 201, imported.content
    before = fingerprint(workspace.world)
    wrong: tuple[dict[str, Any], ...] = (
        {},
        {"data": {}},
        {"data": [{"overrideKey": ""}]},
        {"data": [{"value": {}}]},
        {"data": [{"overrideKey": "new", "value": 5}]},
        {"data": [{"overrideKey": "new", "value": {"n": 10**25}}]},
        {"data": [*rows, {"overrideKey": "new"}]},
    )
    for body in wrong:
        refused = await workspace.post(PACKAGE, body)
        assert refused.status == 400, refused.content
        assert refused.exception["name"] == "ValidationFailed"
    assert fingerprint(workspace.world) == before


async def test_secrets_can_be_left_out(workspace: Workspace) -> None:
    """Hidden values are nowhere in the package, and change nothing where it is imported."""
    await create(workspace, "password", {"type": "secret", "value": "hush"})
    await create(workspace, "token", {"secret": {"value": "hush"}})
    await create(workspace, "region", variable("north"))

    hidden = await fetch(workspace, PACKAGE, hideSecrets="true")
    open_one = await fetch(workspace, PACKAGE)

    values = {
        row["overrideKey"]: row["value"] for row in tables_of(hidden)["environmentparameters"]
    }
    assert values == {"password": None, "token": None, "region": variable("north")}
    assert (await send(workspace, PACKAGE, hidden)).status == 201
    assert await fetch(workspace, PACKAGE) == open_one
    async with open_workspace() as other:
        strange = await send(other, PACKAGE, hidden)
        assert strange.is_refused(400, "ValidationFailed", '"data"', "password")
        assert len(other.world.shelf(EnvironmentParameter)) == 0


async def test_a_macro_travels_as_a_package(workspace: Workspace) -> None:
    """An imported macro has a new id and all that the old one was."""
    world = workspace.world
    made = world.create(
        Macro,
        by=workspace.things.owner.id,
        name="Trim",
        description="spaces",
        steps=("trim col: *", "upper col: *"),
        parameters=({"name": "col"},),
    )
    package = await fetch(workspace, f"{MACROS}/{made.id}/package")
    workspace.token = COLLEAGUE_TOKEN

    answer = await send(workspace, f"{MACROS}/package", package)

    assert answer.status == 201, answer.content
    copy = world.shelf(Macro).get(answer.body["id"])
    assert copy is not None
    assert copy is not made
    assert (copy.name, copy.description, copy.steps, copy.parameters) == (
        made.name,
        made.description,
        made.steps,
        made.parameters,
    )
    assert answer.body["createdBy"] == workspace.things.colleague.id
    assert answer.body["workspaceId"] == 1
    unknown = await workspace.get(f"{MACROS}/9/package")
    assert unknown.is_refused(404, "DataNotFoundException")


@pytest.mark.parametrize(
    "rows", [[], [{"name": "a"}, {"name": "b"}], [{}], [{"name": 5}], [{"name": "a", "steps": "b"}]]
)
async def test_a_package_without_a_macro_is_refused(
    workspace: Workspace, rows: list[dict[str, Any]]
) -> None:
    """A package of a macro has one, with a name and steps."""
    made = workspace.world.create(Macro, by=workspace.things.owner.id, name="Trim")
    package = await fetch(workspace, f"{MACROS}/{made.id}/package")

    answer = await send(workspace, f"{MACROS}/package", changed(package, macros=rows))

    assert answer.is_refused(400, "ValidationFailed", '"data"')
    assert len(workspace.world.shelf(Macro)) == 1
