"""Runs that had ended before a workspace was followed: in the store, with no event."""

from __future__ import annotations

import msgspec

from monitor.bus.contract import Change
from monitor.bus.sqlite import SqliteBus
from monitor.model.runs import RunState
from monitor.tracking.live_state import LiveState
from monitor.tracking.pipeline_health import PipelineHealthTracker


async def had_ended(bus: SqliteBus, live_state: LiveState, *runs: RunState) -> None:
    """Let these be what ended last of their pipelines, found by the first reading back."""
    old = [msgspec.structs.replace(run, historical=True) for run in runs]
    await bus.commit(Change(runs=tuple(old), events=()), timeout_seconds=5)
    for run in runs:
        stand(live_state, run)


def stand(live_state: LiveState, run: RunState) -> None:
    """Let a run be what ended last of its pipeline, or of its recipe."""
    PipelineHealthTracker(live_state).learn([run], {})
