"""The workspace's configuration: read by everybody, changed by administrators, put back."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.sandbox.world.records.parts import WorkspaceSetting
from tests.sandbox.http_workspace import ADMIN_TOKEN, Answer, Workspace, open_workspace

CONFIGURATION = "/v4/workspaces/current/configuration"
SCHEMA = "/v4/workspaces/current/configuration-schema"
RESET = "/v4/workspaces/current/delete-configuration"
IDLE, REGION, PASSWORD = "session.idleMinutes", "dataflow.defaultRegion", "mail.password"


async def save(workspace: Workspace, *changes: Any, token: str = ADMIN_TOKEN) -> Answer:
    return await workspace.request(
        "PATCH", CONFIGURATION, body={"configuration": list(changes)}, token=token
    )


async def reset(workspace: Workspace, *keys: Any, token: str = ADMIN_TOKEN) -> Answer:
    return await workspace.request("POST", RESET, body={"settings": list(keys)}, token=token)


async def test_a_new_workspace_has_the_defaults_of_its_schema() -> None:
    """Every setting of the schema is in the configuration, with its default and type."""
    async with open_workspace() as workspace:
        workspace.token = ADMIN_TOKEN
        configuration = (await workspace.get(CONFIGURATION)).body
        schema = (await workspace.get(SCHEMA)).body

    assert configuration == {key: item["default"] for key, item in schema.items()}
    types = {"boolean": bool, "integer": int, "string": str}
    assert all(type(item["default"]) is types[item["type"]] for item in schema.values())
    assert [key for key, item in schema.items() if item.get("secret")] == [
        PASSWORD,
        "storage.encryptionKey",
    ]


async def test_saved_settings_are_read_until_they_are_reset() -> None:
    """By the current workspace and by its id alike; the reset returns how many were saved."""
    async with open_workspace() as workspace:
        saved = await save(
            workspace, {"key": IDLE, "value": 30}, {"key": REGION, "value": "europe-west3"}
        )
        one = await workspace.get("/v4/workspaces/1/configuration", key=IDLE)
        other = await workspace.get(CONFIGURATION, key=REGION)
        again = await save(workspace, {"key": IDLE, "value": 45})
        gone = await reset(workspace, IDLE, REGION, IDLE, "sharing.enabled")
        last = await workspace.get(CONFIGURATION)
        nothing = await reset(workspace, IDLE)

    assert saved.status == again.status == gone.status == 200
    assert saved.body["configuration"][0] == {"key": IDLE, "value": 30}
    assert (one.body, other.body) == ({IDLE: 30}, {REGION: "europe-west3"})
    assert gone.body == {"numberOfRowsDeleted": 2}
    assert (last.body[IDLE], last.body[REGION]) == (60, "us-central1")
    assert nothing.body == {"numberOfRowsDeleted": 0}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"key": "no.such", "value": 1}, "configuration[1].key"),
        ({"key": IDLE, "value": "long"}, "configuration[1].value"),
        ({"key": IDLE, "value": True}, "configuration[1].value"),
        ({"key": IDLE, "value": 4}, "from 5 to 10080"),
        ({"key": IDLE, "value": None}, "configuration[1].value"),
        ({"key": "sharing.enabled", "value": 1}, "configuration[1].value"),
        ({"key": "jobs.defaultEngine", "value": "abacus"}, "photon, spark, dataflow"),
        ({"key": REGION, "value": {"a": 1}}, "configuration[1].value"),
        ({"value": 1}, "configuration[1].key"),
        ("text", "configuration[1]"),
    ],
)
async def test_one_bad_change_saves_none(change: Any, field: str) -> None:
    """The refusal names the field, and the good change beside it is not kept."""
    async with open_workspace() as workspace:
        answer = await save(workspace, {"key": REGION, "value": "elsewhere"}, change)
        kept = await workspace.get(CONFIGURATION, key=REGION)

    assert answer.is_refused(400, "ValidationFailed", field)
    assert kept.body == {REGION: "us-central1"}


async def test_only_administrators_change_and_read_secrets() -> None:
    """Others are refused (403), and read asterisks where a secret is kept."""
    async with open_workspace() as workspace:
        change = {"key": PASSWORD, "value": "s3cret"}
        refused = [await save(workspace, change, token=workspace.token)]
        refused.append(await reset(workspace, PASSWORD, token=workspace.token))
        await save(workspace, change)
        owner = await workspace.get(CONFIGURATION)
        admin = await workspace.request("GET", CONFIGURATION, token=ADMIN_TOKEN)
        schema = await workspace.get(SCHEMA)

    assert all(item.is_refused(403, "AccessControlException") for item in refused)
    assert owner.body[PASSWORD] == "********"
    assert b"s3cret" not in owner.content + schema.content
    assert admin.body[PASSWORD] == "s3cret"


async def test_other_workspaces_and_unknown_keys_are_refused() -> None:
    """Another id is 404, no number is 400, an unknown key is named."""
    async with open_workspace() as workspace:
        workspace.token = ADMIN_TOKEN
        for path in ("configuration", "configuration-schema"):
            other = await workspace.get(f"/v4/workspaces/2/{path}")
            word = await workspace.get(f"/v4/workspaces/mine/{path}")
            assert other.is_refused(404, "DataNotFoundException", "workspace")
            assert word.is_refused(400, "ValidationFailed", "id")
        key = await workspace.get(CONFIGURATION, key="no.such")
        gone = await reset(workspace, IDLE, "no.such")

    assert key.is_refused(400, "ValidationFailed", "key", "no.such")
    assert gone.is_refused(400, "ValidationFailed", "settings[1]")


async def test_the_limit_of_webhooks_acts() -> None:
    """A flow has as many webhook tasks as the configuration allows, and no more."""
    async with open_workspace() as workspace:
        await save(workspace, {"key": "webhooks.maximumPerFlow", "value": 1})
        task = {
            "name": "tell",
            "flowId": workspace.things.orders.id,
            "url": "http://x.example",
            "method": "post",
            "triggerEvent": "onJobDone",
            "triggerObject": "any",
        }
        answers = [await workspace.post("/v4/webhookFlowTasks", task) for _ in range(2)]

    assert answers[0].status == 201
    assert answers[1].is_refused(400, "ValidationFailed", "1 webhooks")


async def test_a_secret_stands_in_no_representation() -> None:
    """A record that keeps a secret setting does not write it."""
    async with open_workspace() as workspace:
        await save(workspace, {"key": PASSWORD, "value": "s3cret"})
        kept = list(workspace.world.shelf(WorkspaceSetting))

    assert [workspace_setting.value for workspace_setting in kept] == ["s3cret"]
    assert "s3cret" not in repr(kept)
