"""Flows and plans that are not shared with a person are refused, however they are named."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from monitor.catalogue.operations import operations
from monitor.sandbox.world.records.objects import Person, Token
from tests.sandbox.http_workspace import COLLEAGUE_TOKEN, Answer, Workspace, open_workspace
from tests.sandbox.samples.sample import Living
from tests.sandbox.samples.table import SAMPLES, open_living

# What belongs to a flow or a plan, or is a run of it, as paths name it.
PARTS = frozenset(
    (
        *("flows", "flowNodes", "flowRunParameterOverrides", "wrangledDatasets", "outputObjects"),
        *("writeSettings", "publications", "sqlScripts", "webhookFlowTasks"),
        *("flowRuns", "jobGroups", "jobs"),
        *("plans", "planNodes", "planOverrides", "planSnapshotRuns"),
    )
)
NAMING = [
    operation
    for operation in operations()
    if operation.parameters and operation.path.split("/")[2] in PARTS
]
STRANGER = "token-of-a-stranger"


async def as_a_stranger(living: Living, operation_id: str) -> Answer:
    """Send a sample with the token of a person with whom nothing is shared."""
    world = living.workspace.world
    person = world.create(Person, by=0, email="stranger@example.com", name="Stranger")
    world.create(Token, by=person.id, token_id="stranger", value=STRANGER)
    operation = next(item for item in operations() if item.operation_id == operation_id)
    sample = SAMPLES[operation_id]
    return await living.workspace.request(
        operation.method,
        operation.fill(*sample.path(living)),
        query=sample.query,
        body=None if sample.body is None else sample.body(living),
        token=STRANGER,
    )


@pytest.mark.parametrize("operation_id", [operation.operation_id for operation in NAMING])
async def test_an_object_that_is_not_shared_is_refused_by_its_id(operation_id: str) -> None:
    """Every operation on a flow or plan, a part or a run of it, is 403 for a stranger."""
    async with open_living() as living:
        answer = await as_a_stranger(living, operation_id)
        assert answer.is_refused(403, "AccessControlException")


@pytest.mark.parametrize("operation_id", ["runJobGroup", "createWebhookFlowTask"])
async def test_a_body_names_nothing_that_is_not_shared(operation_id: str) -> None:
    """A person runs no recipe, and registers no webhook, of a flow that they do not see."""
    async with open_living() as living:
        answer = await as_a_stranger(living, operation_id)
        assert answer.is_refused(400, "ValidationFailed", "names no")


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


async def test_a_shared_object_is_read_until_its_share_ends(workspace: Workspace) -> None:
    """A share opens a flow and its runs; when it ends, only the person's own runs stay open."""
    things, world = workspace.things, workspace.world
    others = workspace.job_group()
    own = workspace.job_group(by=things.colleague)
    flow_run = workspace.engine.start_flow_run(things.orders, by=things.owner.id)
    paths = [
        f"/v4/flows/{things.orders.id}",
        f"/v4/jobGroups/{others.id}",
        f"/v4/jobGroups/{own.id}",
        f"/v4/flowRuns/{flow_run.id}/status",
    ]

    async def read() -> list[int]:
        return [
            (await workspace.request("GET", path, token=COLLEAGUE_TOKEN)).status for path in paths
        ]

    assert await read() == [403, 403, 200, 403]
    world.update(things.orders, shared_with=frozenset({things.colleague.id}))
    assert await read() == [200] * 4
    world.update(things.orders, shared_with=frozenset())
    assert await read() == [403, 403, 200, 403]
