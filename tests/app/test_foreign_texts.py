"""A workspace whose names are made to harm: what the daemon shows stays small and plain."""

from __future__ import annotations

import re
from pathlib import Path

from monitor.catalogue.operations import Edition
from tests.app import fixture
from tests.app.eventually import eventually

HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


async def test_names_of_megabytes_cost_kilobytes(tmp_path: Path) -> None:
    """Names of 300,000 characters stay short on every face, distinct, and without controls."""
    workspace = fixture.sandbox(Edition.RL)
    flows = list(workspace.world.flows.live())
    for flow in flows:
        flow.name = f"\u202e\x1b[2J\x07{'x' * 300_000}{flow.id}"
    async with (
        fixture.started(workspace) as url,
        fixture.daemon(
            fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url))
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        workspace.open_for_work()
        await fixture.until_ended(workspace, ("job_group",), at_least=3)
        await fixture.until_quiet(workspace)
        labels: set[str] = set()

        async def are_named() -> bool:
            labels.update(re.findall(r'pipeline="([^"]*x{50}[^"]*)"', await face.text("/metrics")))
            return len(labels) >= min(3, len(flows))

        await eventually(are_named, why=lambda: f"only {labels}")
        assert max(map(len, labels)) < 600  # escapes of a label count twice
        for path in ("/metrics", "/", "/api/v1/runs", "/api/v1/pipelines"):
            text = await face.text(path)
            assert len(text) < 2_000_000, path
            assert not HARMFUL.search(text), path
