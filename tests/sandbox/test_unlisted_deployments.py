"""Deployments, which public scripts use and the catalogue does not list: edition open only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.catalogue.operations import Edition
from monitor.sandbox.world.records.objects import Connection, ImportedDataset
from tests.sandbox.http_workspace import COLLEAGUE_TOKEN, Answer, Workspace, open_workspace
from tests.sandbox.packages import fingerprint, send
from tests.sandbox.vendor_packages import CONNECTION, archived, newer

DEPLOYMENTS = "/v4/deployments"


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace(Edition.OPEN) as opened:
        yield opened


async def deploy(workspace: Workspace) -> str:
    made = await workspace.request("POST", DEPLOYMENTS, body={"name": "orders"})
    assert made.status == 201, made.content
    return f"{DEPLOYMENTS}/{made.body['id']}"


async def set_rules(workspace: Workspace, path: str, rules: Any) -> Answer:
    return await workspace.request("PATCH", path, body=rules)


async def test_a_deployment_is_made_listed_and_deleted(workspace: Workspace) -> None:
    """It is found in its owner's list and by its id, until it is deleted."""
    path = await deploy(workspace)

    listed = await workspace.get(DEPLOYMENTS, includeCount="true")
    assert ([row["name"] for row in listed.body["data"]], listed.body["count"]) == (["orders"], 1)
    assert (await workspace.get(path)).body["name"] == "orders"
    workspace.token = COLLEAGUE_TOKEN
    assert (await workspace.request("DELETE", path)).status == 403
    workspace.token = "token-of-the-owner"
    assert (await workspace.request("DELETE", path)).status == 204
    assert (await workspace.get(path)).is_refused(404, "DataNotFoundException")


async def test_rules_replace_each_other(workspace: Workspace) -> None:
    """Each change of the rules answers those that it replaced."""
    path = f"{await deploy(workspace)}/valueImportRules"
    first = [{"type": "fileLocation", "on": "/dev.lopment/", "with": "production"}]

    answers = [await set_rules(workspace, path, rules) for rules in (first, [], first)]

    assert [answer.body["deleted"] for answer in answers] == [[], first, []]


async def test_a_release_is_changed_by_the_rules(workspace: Workspace) -> None:
    """Buckets and paths become others, and a connection one that is here."""
    world, path = workspace.world, await deploy(workspace)
    here = world.create(
        Connection,
        by=workspace.things.owner.id,
        name="production",
        uuid="u-1",
        vendor="postgres",
        vendor_name="P",
    )
    rules = [
        {"type": "s3Bucket", "on": "in", "with": "live"},
        {"type": "fileLocation", "on": "/ord[a-z]+/", "with": "sales"},
    ]
    objects = [
        {
            "tableName": "connections",
            "onCondition": {"uuid": CONNECTION["uuid"]},
            "withCondition": {"id": here.id},
        }
    ]
    assert (await set_rules(workspace, f"{path}/valueImportRules", rules)).status == 200
    assert (await set_rules(workspace, f"{path}/objectImportRules", objects)).status == 200

    answer = await send(workspace, f"{path}/releases", archived(newer()))

    assert answer.status == 201, answer.content
    assert len(answer.body["importRuleChanges"]["object"]) == 1
    assert {row["type"] for row in answer.body["importRuleChanges"]["value"]} == {
        rule["type"] for rule in rules
    }
    (flow_id,) = answer.body["primaryFlowIds"]
    joined = world.recipes_of(flow_id)[0]
    orders, prices = (world.imported_datasets.get(key) for key in joined.dataset_ids)
    assert isinstance(orders, ImportedDataset)
    assert isinstance(prices, ImportedDataset)
    assert orders.uri == "gs://live/sales.csv"
    assert prices.connection_id == here.id
    (output,) = world.outputs_of(joined.id)
    assert world.write_settings_of(output.id)[0].path == "gs://out/sales.csv"


async def test_a_release_needs_what_its_rules_name(workspace: Workspace) -> None:
    """A rule may name a connection that is not here yet; a release that needs it is refused."""
    path = await deploy(workspace)
    rule = {"tableName": "connections", "withCondition": {"id": 999}}
    rules = [{**rule, "onCondition": {"uuid": CONNECTION["uuid"]}}]
    assert (await set_rules(workspace, f"{path}/objectImportRules", rules)).status == 200
    before = fingerprint(workspace.world)

    answer = await send(workspace, f"{path}/releases", archived(newer()))

    assert answer.is_refused(400, "ValidationFailed", '"data"', "connection")
    assert fingerprint(workspace.world) == before


async def test_the_newest_release_runs(workspace: Workspace) -> None:
    """A run is of the flow that came last, with the values that the request gives."""
    path = await deploy(workspace)
    body = {"runParameters": {"overrides": {"data": [{"key": "region", "value": "west"}]}}}
    empty = await workspace.request("POST", f"{path}/run", body=body)
    releases = [await send(workspace, f"{path}/releases", archived(newer())) for _ in range(2)]

    answer = await workspace.request("POST", f"{path}/run", body=body)

    assert empty.is_refused(400, "ValidationFailed", "active release")
    assert answer.status == 201, answer.content
    (row,) = answer.body["data"]
    group = workspace.world.job_groups.get(row["id"])
    assert group is not None
    assert (row["reason"], group.parameters) == ("JobStarted", {"region": "west"})
    (flow_id,) = releases[1].body["primaryFlowIds"]
    assert group.flow_id == flow_id
    listed = (await workspace.get(f"{path}/releases")).body["data"]
    assert [(item["active"], item["flow"]["id"]) for item in listed] == [
        (True, flow_id),
        (False, releases[0].body["primaryFlowIds"][0]),
    ]


@pytest.mark.parametrize(
    ("kind", "rules", "mentions"),
    [
        ("value", {}, "array"),
        ("value", [5], "object"),
        ("value", [{"type": "weather", "on": "a", "with": "b"}], "type"),
        ("value", [{"type": "s3Bucket", "with": "b"}], "on"),
        ("value", [{"type": "s3Bucket", "on": "/(/", "with": "b"}], "pattern"),
        ("value", [{"type": "s3Bucket", "on": "a"}] * 101, "100"),
        ("object", [{"tableName": "flows"}], "tableName"),
        ("object", [{"tableName": "connections", "onCondition": {}}], "withCondition"),
    ],
)
async def test_a_bad_rule_is_refused(
    workspace: Workspace, kind: str, rules: Any, mentions: str
) -> None:
    """A document that is no rule is 400, names what is wrong with it, and the rules stay."""
    path = await deploy(workspace)
    before = fingerprint(workspace.world)

    answer = await set_rules(workspace, f"{path}/{kind}ImportRules", rules)

    assert answer.is_refused(400, "ValidationFailed", mentions), answer.content
    assert fingerprint(workspace.world) == before
