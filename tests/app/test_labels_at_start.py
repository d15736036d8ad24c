"""Under which names pipelines are shown before their workspace has answered again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from monitor.bus.contract import EventBus
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.polling.lists.listed_objects import LISTED
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.hosted_shards import running_shard


async def is_stored(bus: EventBus, name: str) -> bool:
    entries = await bus.state_entries("acme", LISTED)
    return any(name.encode() in entry for entry in entries.values())


async def test_pipelines_keep_their_labels_over_a_loss_of_the_shard(tmp_path: Path) -> None:
    """A namesake that never ran, and a name that no run has reported: series go on under both."""
    workspace = fixture.sandbox()
    lower, higher, renamed = list(workspace.world.flows.live())[:3]
    for flow in (lower, higher):
        workspace.world.update(flow, by=flow.creator_id, name="orders")
    flows = [
        Pipeline(kind=PipelineKind.FLOW, id=str(flow.id), name=None)
        for flow in (lower, higher, renamed)
    ]
    labels = ["orders", f"orders#{higher.id}", "clicks and taps"]
    async with fixture.started(workspace) as url:
        followed = fixture.workspace_configuration(workspace, url)
        poll = msgspec.structs.replace(followed.poll, names_seconds=0.5)
        followed = msgspec.structs.replace(followed, poll=poll)
        settings = fixture.configuration(tmp_path, followed)
        async with running_shard(settings.storage, settings) as running:
            view = running.shard.view
            for flow in (higher, renamed):
                recipe = workspace.world.recipes_of(flow.id)[0]
                workspace.engine.start_job_group(recipe, by=recipe.creator_id)
            await eventually(lambda: len(view.pipeline_health()) >= 2, why="no run has ended")
            workspace.world.update(renamed, by=renamed.creator_id, name="clicks and taps")
            await eventually(
                lambda: [view.label("acme", flow) for flow in flows] == labels,
                why=lambda: [view.label("acme", flow) for flow in flows],
            )
            await eventually(lambda: is_stored(running.shard.bus, labels[-1]), why="not stored")
            await running.end(is_orderly=False)
    async with running_shard(settings.storage, settings) as running:
        view = running.shard.view
        assert [view.label("acme", flow) for flow in flows] == labels
        assert {health.run_kind for health in view.pipeline_health()} == {RunKind.JOB_GROUP}
