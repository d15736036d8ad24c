"""The edition of a workspace follows from what can be read there, whatever it claims."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal

import pytest
from prometheus_client import CollectorRegistry

from monitor.catalogue.capabilities import capabilities_of
from monitor.catalogue.operations import Edition, operation
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from monitor.polling.discovery.probe import PROBED, probe
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorldOptions
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.settings import WorkspaceSettings

Document = Literal["filtered", "whole"]
Opened = Callable[[Edition, Document], AbstractAsyncContextManager[tuple[Sandbox, WorkspaceClient]]]


@pytest.fixture
def opened() -> Opened:
    """Return what starts a sandbox and a client that does not know its edition."""

    @asynccontextmanager
    async def open_one(
        edition: Edition, document: Document
    ) -> AsyncIterator[tuple[Sandbox, WorkspaceClient]]:
        options = WorldOptions(specification=document)
        sandbox = Sandbox(
            SandboxSettings(edition=edition, options=options, is_busy_at_once=False), SystemClock()
        )
        settings = WorkspaceSettings(
            name="acme",
            url=await sandbox.start(),
            token=Secret(sandbox.token),
            requests_per_minute=60_000,
        )
        client = WorkspaceClient(settings, clock=SystemClock(), registry=CollectorRegistry())
        try:
            yield sandbox, client
        finally:
            await client.close()
            await sandbox.stop()

    return open_one


@pytest.mark.parametrize("document", ["filtered", "whole"])
@pytest.mark.parametrize("edition", list(Edition))
async def test_every_edition_is_recognised(
    opened: Opened, edition: Edition, document: Document
) -> None:
    """Also where the served specification names operations that the edition does not have."""
    async with opened(edition, document) as (_, client):
        finding = await probe(client)

    reads = {operation_id for operation_id in PROBED if operation(operation_id).is_part_of(edition)}
    shown = Edition.OPEN if document == "whole" else edition
    assert finding.edition is edition
    assert finding.is_sure
    assert finding.capabilities == capabilities_of(edition)
    assert all(read in finding.reason for read in reads)
    assert finding.reason.endswith(f"is most like {shown}")


@pytest.mark.parametrize("edition", list(Edition))
async def test_an_edition_is_found_without_changing_anything(
    opened: Opened, edition: Edition
) -> None:
    """Only reads are sent, each once, and no object is made or touched."""
    operation_ids: list[str] = []
    async with opened(edition, "filtered") as (sandbox, client):
        sandbox.on_request(lambda operation_id, _: operation_ids.append(operation_id))
        await probe(client)

    assert {operation(text).method for text in operation_ids} == {"GET"}
    assert len(operation_ids) == len(set(operation_ids)) <= len(PROBED) + 1


async def test_an_edition_stands_while_no_read_contradicts_it(opened: Opened) -> None:
    """Premium that no longer shows whose token it is resembles Professional, but was Premium."""
    async with opened(Edition.RL, "whole") as (sandbox, client):
        first = await probe(client)
        sandbox.world.options.lose["getCurrentPerson"] = 0.0
        second = await probe(client, before=first.edition)

    assert (first.edition, second.edition) == (Edition.RL, Edition.RL)
    assert "refused are getCurrentPerson" in second.reason
