"""Merges one observation into what is known of its run, in any order.

Every rule here commutes: whichever of two observations comes first, the same details remain. The
status is not merged here; `transitions` decides it.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from monitor.model.observations import Observation
from monitor.model.runs import (
    JobDetails,
    Parents,
    Pipeline,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
    status_of,
)

# Which word wins where two observations name different triggers; the more specific one knows more.
_TRIGGER_ORDER = (Trigger.UNKNOWN, Trigger.MANUAL, Trigger.API, Trigger.SCHEDULE, Trigger.PLAN)

Instant = tuple[datetime | None, bool]  # the instant, and whether it is approximate


def merge(known: RunState | None, observation: Observation) -> RunState:
    """Return the run with all that both show; its status is still the known one."""
    if known is None:
        known = RunState(
            key=observation.key,
            status=Status.PENDING,
            confirmed_at=observation.observed_at,
            confirmed_by=observation.source,
        )
    started, finished = _started(known, observation), _finished(known, observation)
    approximate = (
        name
        for name, (_, is_approximate) in (("started_at", started), ("finished_at", finished))
        if is_approximate
    )
    is_newer = observation.observed_at >= known.confirmed_at
    return msgspec.structs.replace(
        known,
        created_at=_earliest(known.created_at, observation.created_at),
        started_at=started[0],
        finished_at=finished[0],
        updated_at=_latest(known.updated_at, observation.updated_at),
        approximate=tuple(approximate),
        pipeline=_pipeline(known.pipeline, observation.pipeline),
        recipe=known.recipe or observation.recipe,
        parents=_parents(known.parents, observation.parents),
        trigger=max(known.trigger, observation.trigger, key=_TRIGGER_ORDER.index),
        ran_for=known.ran_for or observation.ran_for,
        owner=known.owner or observation.owner,
        error=_error(known, observation),
        url=known.url or observation.url,
        jobs=_jobs(known, observation),
        is_called_back=known.is_called_back or observation.source is Source.CALLBACK,
        confirmed_at=observation.observed_at if is_newer else known.confirmed_at,
        confirmed_by=observation.source if is_newer else known.confirmed_by,
    )


def _started(known: RunState, observation: Observation) -> Instant:
    return _better(
        (known.started_at, "started_at" in known.approximate),
        (observation.started_at, "started_at" in observation.approximate),
    )


def _finished(known: RunState, observation: Observation) -> Instant:
    observed: Instant = (observation.finished_at, "finished_at" in observation.approximate)
    if observed[0] is None and _shows_the_end(observation):
        # The last write of an ended run is the nearest stamp to its end that is reported.
        observed = (observation.updated_at, observation.updated_at is not None)
    return _better((known.finished_at, "finished_at" in known.approximate), observed)


def _shows_the_end(observation: Observation) -> bool:
    status = status_of(observation.native_status)
    return status is not None and status.is_terminal and observation.source is not Source.CALLBACK


def _better(first: Instant, other: Instant) -> Instant:
    """Choose between two: a reported instant before an approximate one, then the earlier.

    The earlier, because an edit after the end moves the last write and never moves it back.
    """
    if first[0] is None or other[0] is None:
        return other if first[0] is None else first
    if first[1] != other[1]:
        return other if first[1] else first
    return first if first[0] <= other[0] else other


def _earliest(first: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (first, other) if at is not None), default=None)


def _latest(first: datetime | None, other: datetime | None) -> datetime | None:
    return max((at for at in (first, other) if at is not None), default=None)


def _pipeline(known: Pipeline | None, observed: Pipeline | None) -> Pipeline | None:
    if known is None or observed is None:
        return known or observed
    if observed.id == known.id and observed.name is not None:
        return observed
    return known


def _parents(known: Parents, observed: Parents) -> Parents:
    return Parents(
        flow_run=known.flow_run or observed.flow_run, plan_run=known.plan_run or observed.plan_run
    )


def _error(known: RunState, observation: Observation) -> str | None:
    if observation.is_detail_final and observation.error:
        return observation.error
    return known.error or observation.error


def _jobs(known: RunState, observation: Observation) -> JobDetails | None:
    observed, before = observation.jobs, known.jobs
    if observed is None or before is None:
        return observed or before
    if known.detailed or observation.key.kind is not RunKind.JOB_GROUP:
        return before
    is_older = (
        before.read_at is not None
        and observed.read_at is not None
        and observed.read_at < before.read_at
    )
    return before if is_older and not observation.is_detail_final else observed
