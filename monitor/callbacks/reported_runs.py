"""What callbacks report, as observations of their runs."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.bus.contract import StoredCallback
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, Source, status_of


def run_of(callback: StoredCallback) -> RunKey:
    return RunKey(callback.workspace, callback.kind, callback.run_id)


def observations_of(callbacks: Sequence[StoredCallback]) -> list[Observation]:
    return [observation_of(callback) for callback in callbacks]


def ended(
    observations: Sequence[Observation], outcomes: Sequence[ObservationOutcome]
) -> list[Observation]:
    """Return the ends that are new; what they lack is read later."""
    return [
        observation
        for observation, outcome in zip(observations, outcomes, strict=True)
        if outcome is ObservationOutcome.CHANGED
        and (status := status_of(observation.native_status)) is not None
        and status.is_terminal
    ]


def observation_of(callback: StoredCallback) -> Observation:
    """Return what a callback reports, as an observation of its run."""
    is_of_a_flow = callback.flow_id is not None and callback.kind is not RunKind.PLAN_RUN
    pipeline = Pipeline(kind=PipelineKind.FLOW, id=callback.flow_id or "") if is_of_a_flow else None
    return Observation(
        key=run_of(callback),
        source=Source.CALLBACK,
        observed_at=callback.received_at,
        native_status=callback.native_status,
        pipeline=pipeline,
        inbox_id=callback.id or None,
    )
