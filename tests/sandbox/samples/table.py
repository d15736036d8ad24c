"""All samples by operation id, and the world in which they succeed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from monitor.catalogue.operations import Edition, Operation
from tests.sandbox.http_workspace import Answer, Workspace, open_workspace
from tests.sandbox.samples import (
    data,
    flows,
    outputs,
    packages,
    people,
    plans,
    runs,
    schedules,
    webhooks,
    workspace,
)
from tests.sandbox.samples.sample import Living, Sample

# In this order they furnish the world: what others hang on comes first.
FAMILIES = (people, data, flows, outputs, packages, plans, schedules, webhooks, workspace, runs)

SAMPLES: dict[str, Sample] = {
    "getOpenApiSpec": Sample(),
    **{name: sample for family in FAMILIES for name, sample in family.SAMPLES.items()},
}


def furnish(workspace: Workspace) -> Living:
    """Put one of everything into a workspace. Nothing goes over HTTP: editions lack creates."""
    living = Living(workspace)
    for family in FAMILIES:
        family.furnish(living)
    return living


@contextlib.asynccontextmanager
async def open_living(edition: Edition = Edition.OPEN) -> AsyncIterator[Living]:
    """Serve a world in which every sample succeeds once."""
    async with open_workspace(edition) as workspace:
        yield furnish(workspace)


async def call(living: Living, operation: Operation, sample: Sample) -> Answer:
    """Send the request of a sample."""
    workspace = living.workspace
    return await workspace.request(
        operation.method,
        operation.fill(*sample.path(living)),
        query=sample.query,
        body=None if sample.body is None else sample.body(living),
        content=None if sample.upload is None else sample.upload(living),
        headers={} if sample.upload is None else {"Content-Type": "application/zip"},
        token=sample.token,
    )
