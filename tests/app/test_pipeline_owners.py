"""The owners that pipelines can be filtered by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.app import fixture
from tests.app.eventually import eventually


async def test_the_filter_has_the_owners_of_the_listed_flows(tmp_path: Path) -> None:
    """Lists show ids of people only, so each of their owners is read once, for the name."""
    workspace = fixture.sandbox()
    creators = {flow.id: flow.creator_id for flow in workspace.world.flows.live()}
    emails = {
        person.email for person in workspace.world.people.live() if person.id in creators.values()
    }
    async with fixture.started(workspace) as url:
        configuration = fixture.workspace_configuration(workspace, url)
        async with fixture.daemon(fixture.configuration(tmp_path, configuration)) as face:
            found: dict[str, Any] = {}

            async def has_owners() -> bool:
                found.update(await face.json("/api/v1/pipelines"))
                return emails <= set(found["owners"])

            await eventually(has_owners, why="an owner in the filter has no name")
            assert len(emails) > 1
            for owner in found["owners"]:
                rows = (await face.json(f"/api/v1/pipelines?owner={owner}"))["data"]
                flows = [row for row in rows if row["kind"] == "flow"]
                assert rows
                assert len({creators[int(row["pipeline_id"])] for row in flows}) <= 1
