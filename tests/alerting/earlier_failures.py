"""Runs that had ended before a workspace was followed: in the store, with no event."""

from __future__ import annotations

import msgspec

from monitor.bus.contract import Change
from monitor.bus.sqlite import SqliteBus
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunState, Status
from monitor.tracking.live_state import LiveState


async def had_ended(bus: SqliteBus, live_state: LiveState, *runs: RunState) -> None:
    """Let these be what ended last of their pipelines, found by the first reading back."""
    old = [msgspec.structs.replace(run, historical=True) for run in runs]
    await bus.commit(Change(runs=tuple(old), events=()), timeout_seconds=5)
    for run in runs:
        stand(live_state, run)


def stand(live_state: LiveState, run: RunState) -> None:
    """Let a run be what ended last of its pipeline, or of its recipe."""
    assert run.pipeline is not None
    recipe_id = run.recipe.id if run.recipe is not None else None
    place = (run.key.workspace, run.key.kind, run.pipeline.id, recipe_id)
    is_good = run.status is Status.SUCCEEDED
    before = live_state.pipeline_health.get(place)
    success_at = before.last_success_at if before is not None else None
    live_state.pipeline_health[place] = PipelineHealth(
        workspace=run.key.workspace,
        run_kind=run.key.kind,
        pipeline=run.pipeline,
        recipe_id=recipe_id,
        last_finished_at=run.finished_at,
        last_success_at=run.finished_at if is_good else success_at,
        last_status=run.status,
        last_run_id=run.key.id,
    )
