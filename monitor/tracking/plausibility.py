"""Marks what a workspace reports of a run and cannot be true. Pure.

It is marked and never repaired: the times stay as they were reported. Once marked, a run stays so.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from monitor.model.observations import Observation
from monitor.model.runs import (
    EndBasis,
    Implausible,
    JobDetails,
    Pipeline,
    Recipe,
    RunKind,
    RunState,
    Source,
    Status,
)

# Of clocks that are not quite in step; a stamp may also be cut to its second.
_CLOCK_TOLERANCE = timedelta(seconds=60)
_STAMP_TOLERANCE = timedelta(seconds=1)


def with_implausible(
    known: RunState | None,
    state: RunState,
    observation: Observation,
    *,
    observed_at: datetime | None,
) -> RunState:
    """Return the state with the marks of what it and the observation show.

    ``known`` is the run before the observation. ``observed_at`` is the latest workspace time at
    which it can have been; where that is not known, no time lies in the future.
    """
    marks = {*state.implausible, *_marks(known, state, observation)}
    if observed_at is not None:
        latest = observed_at + _CLOCK_TOLERANCE
        if any(at > latest for at in _times(observation)):
            marks.add(Implausible.IN_THE_FUTURE)
    return msgspec.structs.replace(state, implausible=tuple(sorted(marks)))


def _marks(
    known: RunState | None, state: RunState, observation: Observation
) -> Iterator[Implausible]:
    if _ends_before_its_start(state):
        yield Implausible.ENDS_BEFORE_START
    if state.key.id in _parents_of_its_kind(state):
        yield Implausible.CONTAINS_ITSELF
    has_failed_jobs = state.jobs is not None and _have_failed(state.jobs)
    if state.status is Status.SUCCEEDED and state.unconfirmed_end is None and has_failed_jobs:
        yield Implausible.COMPLETE_WITH_FAILED_JOBS
    if known is None or observation.source is Source.CALLBACK:
        return
    if _is_another_pipeline(known.pipeline, observation.pipeline):
        yield Implausible.PIPELINE_CHANGED
    if _is_another_recipe(known.recipe, observation.recipe):
        yield Implausible.RECIPE_CHANGED


def _ends_before_its_start(run: RunState) -> bool:
    if run.finished_at is None or run.finished_by is EndBasis.LAST_WRITE:
        return False
    begun_at = run.created_at if "started_at" in run.approximate else run.started_at
    begun_at = begun_at or run.created_at
    return begun_at is not None and run.finished_at < begun_at - _STAMP_TOLERANCE


def _parents_of_its_kind(run: RunState) -> tuple[str | None, ...]:
    if run.key.kind is RunKind.PLAN_RUN:
        return (run.parents.plan_run,)
    return (run.parents.flow_run,) if run.key.kind is RunKind.FLOW_RUN else ()


def _have_failed(jobs: JobDetails) -> bool:
    return any(count.status == Status.FAILED and count.count > 0 for count in jobs.counts)


def _is_another_pipeline(known: Pipeline | None, observed: Pipeline | None) -> bool:
    if known is None or observed is None:
        return False
    return (known.kind, known.id) != (observed.kind, observed.id)


def _is_another_recipe(known: Recipe | None, observed: Recipe | None) -> bool:
    return known is not None and observed is not None and known.id != observed.id


def _times(observation: Observation) -> Iterator[datetime]:
    times = (
        observation.created_at,
        observation.started_at,
        observation.finished_at,
        observation.updated_at,
    )
    return (at for at in times if at is not None)
