"""People, their options for Dataflow, and their ways to AWS."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.catalogue.operations import Edition
from tests.sandbox.http_workspace import (
    ADMIN_TOKEN,
    COLLEAGUE_TOKEN,
    Answer,
    Workspace,
    open_workspace,
)

PEOPLE, CONFIGS, ROLES = "/v4/people", "/v4/awsConfigs", "/v4/awsRoles"
ROLE = "arn:aws:iam::123456789012:role/wrangler"


async def put(workspace: Workspace, path: str, body: Any, *, token: str | None = None) -> Answer:
    return await workspace.request("PUT", path, body=body, token=token)


async def rows(workspace: Workspace, path: str, token: str, **query: str) -> list[Any]:
    answer = await workspace.request("GET", path, query=query, token=token)
    found: list[Any] = answer.body["data"]
    return found


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["Admin", "Colleague", "Owner"]),
        ({"email": "ADMIN@example.com"}, ["Admin"]),
        ({"state": "hidden"}, ["Colleague"]),
        ({"isDisabled": "true"}, ["Admin"]),
        ({"isDisabled": "False"}, ["Colleague", "Owner"]),
        ({"peopleIds": "11,13"}, ["Admin", "Owner"]),
        ({"filter": "colleague@", "filterType": "contains"}, ["Colleague"]),
        ({"sort": "-email", "limit": "2"}, ["Owner", "Colleague"]),
        ({"limit": "1", "noLimit": "true"}, ["Admin", "Colleague", "Owner"]),
    ],
)
async def test_people_are_listed_by_query(query: dict[str, str], names: list[str]) -> None:
    """Each parameter of the list keeps those whom it describes, and the count agrees."""
    async with open_workspace() as workspace:
        workspace.things.colleague.state = "hidden"
        workspace.things.admin.is_disabled = True
        answer = await workspace.get(PEOPLE, includeCount="true", **query)

    assert [row["name"] for row in answer.body["data"]] == names
    assert answer.body["count"] == (3 if "limit" in query else len(names))


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"state": "away"}, "state"),
        ({"isDisabled": "perhaps"}, "isDisabled"),
        ({"peopleIds": "11;me"}, "peopleIds"),
        ({"noLimit": "7"}, "noLimit"),
        ({"includeStatus": "x"}, "includeStatus"),
    ],
)
async def test_a_wrong_parameter_is_named(query: dict[str, str], parameter: str) -> None:
    """The list of people is refused with the parameter that is wrong."""
    async with open_workspace() as workspace:
        answer = await workspace.get(PEOPLE, **query)

    assert answer.is_refused(400, "ValidationFailed", f'"{parameter}"')


async def test_a_person_is_read_by_id_and_by_token() -> None:
    """Privileges come on request; another workspace has no people."""
    async with open_workspace() as workspace:
        current = await workspace.get(f"{PEOPLE}/current", workspaceId="1")
        read = await workspace.get(f"{PEOPLE}/{workspace.things.owner.id}")
        mine = await workspace.get(f"{PEOPLE}/current", includePrivileges="true")
        chosen = await workspace.get(f"{PEOPLE}/12", fields="email")
        missing = await workspace.get(f"{PEOPLE}/999")
        elsewhere = await workspace.get(f"{PEOPLE}/current", workspaceId="2")
        count = await workspace.get(f"{PEOPLE}/count")

    assert current.body == read.body
    assert "maximalPrivileges" not in read.body
    privileges = {row["resourceType"]: row["operations"] for row in mine.body["maximalPrivileges"]}
    assert "execute" in privileges["flow"]
    assert privileges["userdefinedfunction"] == ["read"]
    assert chosen.body == {"email": "colleague@example.com"}
    assert missing.is_refused(404, "DataNotFoundException", "999")
    assert elsewhere.is_refused(404, "DataNotFoundException")
    assert count.status in {400, 404}


async def test_options_show_in_the_runs_of_their_person() -> None:
    """A person's options stand beside the workspace's region, and in no other person's runs."""
    async with open_workspace(Edition.OPEN) as workspace:
        things = workspace.things
        await workspace.post(
            f"{PEOPLE}/dataflowOptions/default", {"machineType": "n1", "zone": "a"}
        )
        kept = await workspace.post(f"{PEOPLE}/current/dataflowOptions/default", {"zone": "b"})
        other = await workspace.request(
            "POST",
            f"{PEOPLE}/COLLEAGUE%40example.com/dataflowOptions/default",
            body={"network": "inner"},
            token=ADMIN_TOKEN,
        )
        shown = []
        for person in (things.owner, things.colleague):
            run = workspace.job_group(by=person)
            read = await workspace.get(
                f"/v4/jobGroups/{run.id}", embed="jobgroupdataflowoptions(sort=key)"
            )
            shown.append(read.body["jobGroupDataflowOptions"]["data"])

    assert (kept.status, kept.content, other.status) == (204, b"", 204)
    region = {"key": "region", "value": "us-central1"}
    assert shown == [
        [region, {"key": "zone", "value": "b"}],
        [{"key": "network", "value": "inner"}, region],
    ]


async def test_options_of_others_are_an_administrators_matter() -> None:
    """Others get 403, unknown people are 404, and what is no object or no word is 400."""
    async with open_workspace(Edition.PL) as workspace:
        path = f"{PEOPLE}/admin@example.com/dataflowOptions/default"
        refused = await workspace.post(path, {})
        unknown = await workspace.request(
            "POST", f"{PEOPLE}/who@x.example/dataflowOptions/a", body={}, token=ADMIN_TOKEN
        )
        text = await workspace.post(f"{PEOPLE}/dataflowOptions/default", "text")
        word = await workspace.post(f"{PEOPLE}/dataflowOptions/a%20b", {})

    assert refused.is_refused(403, "AccessControlException")
    assert unknown.is_refused(404, "DataNotFoundException", "who@x.example")
    assert text.is_refused(400, "ValidationFailed", "body")
    assert word.is_refused(400, "ValidationFailed", "type")


async def test_a_configuration_shows_no_key() -> None:
    """Key and secret are stored and named by an id; neither is in any answer."""
    async with open_workspace() as workspace:
        made = await workspace.post(
            CONFIGS,
            {
                "credentialProvider": "default",
                "defaultBucket": "in",
                "extraBuckets": ["a", "b"],
                "key": "AKIA-1",
                "secret": "hush",
            },
        )
        changed = await put(workspace, f"{CONFIGS}/{made.body['id']}", {"defaultBucket": "out"})
        listed = await workspace.get(CONFIGS, includeCount="true")

    assert made.status == 201
    assert made.body["credential"] == {"id": made.body["id"]}
    assert made.body["extraBuckets"] == ["a", "b"]
    assert changed.status == 200
    assert changed.body == {**made.body, "defaultBucket": "out"}
    assert listed.body == {"data": [changed.body], "count": 1}
    for answer in (made, changed, listed):
        assert b"AKIA" not in answer.content
        assert b"hush" not in answer.content


async def test_roles_belong_to_the_configuration_of_their_person() -> None:
    """One is made where there is none; its first role is the active one until it is deleted."""
    async with open_workspace() as workspace:
        first = await workspace.post(ROLES, {"role": ROLE})
        second = await workspace.post(ROLES, {"role": f"{ROLE}-2"})
        path = f"{ROLES}/{first.body['id']}"
        changed = await put(workspace, path, {"role": f"{ROLE}-3", "createdFrom": "idp"})
        (config,) = await rows(workspace, CONFIGS, workspace.token)
        listed = await rows(workspace, ROLES, workspace.token)
        gone = await workspace.request("DELETE", path)
        again = await workspace.request("DELETE", path)
        (without,) = await rows(workspace, CONFIGS, workspace.token)

    assert first.status == 201
    assert first.body["awsConfigId"] == second.body["awsConfigId"] == config["id"]
    assert (changed.body["role"], changed.body["createdFrom"]) == (f"{ROLE}-3", "idp")
    assert config["activeRoleId"] == first.body["id"]
    assert [row["awsConfig"] for row in listed] == [{"id": config["id"]}] * 2
    assert (gone.status, gone.content) == (204, b"")
    assert again.is_refused(404, "DataNotFoundException")
    assert without["activeRoleId"] is None


async def test_everybody_sees_their_own_and_shared_settings() -> None:
    """An administrator sets up others and the workspace, and sees all; others are refused."""
    async with open_workspace() as workspace:
        things = workspace.things
        for owner in ({"personId": things.owner.id}, {"workspaceId": 1}, {}):
            body = {"role": ROLE, **owner}
            made = await workspace.request("POST", ROLES, body=body, token=ADMIN_TOKEN)
            assert made.status == 201
        visible = {
            token: len(await rows(workspace, ROLES, token))
            for token in (workspace.token, COLLEAGUE_TOKEN, ADMIN_TOKEN)
        }
        chosen = await rows(workspace, ROLES, ADMIN_TOKEN, personId=str(things.owner.id))
        shared = await put(
            workspace, f"{ROLES}/{made.body['id']}", {"role": "x"}, token=COLLEAGUE_TOKEN
        )
        foreign = await workspace.post(CONFIGS, {"credentialProvider": "default", "personId": 12})
        everybody = await workspace.post(ROLES, {"role": ROLE, "workspaceId": 1})

    assert visible == {workspace.token: 2, COLLEAGUE_TOKEN: 1, ADMIN_TOKEN: 3}
    assert len(chosen) == 1
    for answer in (shared, foreign, everybody):
        assert answer.is_refused(403, "AccessControlException")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (CONFIGS, {}, "credentialProvider"),
        (CONFIGS, {"credentialProvider": "magic"}, "credentialProvider"),
        (CONFIGS, {"credentialProvider": "default", "personId": 999}, "personId"),
        (CONFIGS, {"credentialProvider": "default", "workspaceId": 2}, "workspaceId"),
        (CONFIGS, {"credentialProvider": "default", "extraBuckets": "a"}, "extraBuckets"),
        (ROLES, {}, "role"),
        (ROLES, {"role": ROLE, "personId": "unknown"}, "personId"),
        (ROLES, {"role": 7}, "role"),
    ],
)
async def test_bad_aws_settings_are_refused_by_field(
    path: str, body: dict[str, Any], field: str
) -> None:
    """A missing, mistyped or dangling field is refused, and nothing is made."""
    async with open_workspace() as workspace:
        answer = await workspace.request("POST", path, body=body, token=ADMIN_TOKEN)
        listed = await rows(workspace, path, ADMIN_TOKEN)

    assert answer.is_refused(400, "ValidationFailed", field)
    assert listed == []
