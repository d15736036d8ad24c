"""Puts what one sighting tells beside what is known, without regard to their order.

Every rule here commutes: whichever of two sightings comes first, the same details remain. The
status is not merged here; `transitions` decides it.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from monitor.model.runs import (
    JobsSeen,
    Parents,
    Pipeline,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
    status_of,
)
from monitor.model.sightings import Sighting

# Which word wins where two looks name different triggers; the more specific one knows more.
_TRIGGER_ORDER = (Trigger.UNKNOWN, Trigger.MANUAL, Trigger.API, Trigger.SCHEDULE, Trigger.PLAN)

Instant = tuple[datetime | None, bool]  # the instant, and whether it is approximate


def merge(known: RunState | None, sighting: Sighting) -> RunState:
    """Return the run with all that both tell; its status is still the known one."""
    if known is None:
        known = RunState(
            key=sighting.key,
            status=Status.PENDING,
            confirmed_at=sighting.seen_at,
            confirmed_by=sighting.source,
        )
    started, finished = _started(known, sighting), _finished(known, sighting)
    approximate = (
        name
        for name, (_, is_approximate) in (("started_at", started), ("finished_at", finished))
        if is_approximate
    )
    is_newer = sighting.seen_at >= known.confirmed_at
    return msgspec.structs.replace(
        known,
        created_at=_earliest(known.created_at, sighting.created_at),
        started_at=started[0],
        finished_at=finished[0],
        updated_at=_latest(known.updated_at, sighting.updated_at),
        approximate=tuple(approximate),
        pipeline=_pipeline(known.pipeline, sighting.pipeline),
        recipe=known.recipe or sighting.recipe,
        parents=_parents(known.parents, sighting.parents),
        trigger=max(known.trigger, sighting.trigger, key=_TRIGGER_ORDER.index),
        ran_for=known.ran_for or sighting.ran_for,
        owner=known.owner or sighting.owner,
        error=_error(known, sighting),
        url=known.url or sighting.url,
        jobs=_jobs(known, sighting),
        is_called_back=known.is_called_back or sighting.source is Source.CALLBACK,
        confirmed_at=sighting.seen_at if is_newer else known.confirmed_at,
        confirmed_by=sighting.source if is_newer else known.confirmed_by,
    )


def _started(known: RunState, sighting: Sighting) -> Instant:
    return _better(
        (known.started_at, "started_at" in known.approximate),
        (sighting.started_at, "started_at" in sighting.approximate),
    )


def _finished(known: RunState, sighting: Sighting) -> Instant:
    told: Instant = (sighting.finished_at, "finished_at" in sighting.approximate)
    if told[0] is None and _shows_the_end(sighting):
        # The last write of an ended run is the nearest stamp to its end that is reported.
        told = (sighting.updated_at, sighting.updated_at is not None)
    return _better((known.finished_at, "finished_at" in known.approximate), told)


def _shows_the_end(sighting: Sighting) -> bool:
    status = status_of(sighting.native_status)
    return status is not None and status.is_terminal and sighting.source is not Source.CALLBACK


def _better(one: Instant, other: Instant) -> Instant:
    """Choose between two tellings: a reported instant before an approximate one, then the earlier.

    The earlier, because an edit after the end moves the last write and never moves it back.
    """
    if one[0] is None or other[0] is None:
        return other if one[0] is None else one
    if one[1] != other[1]:
        return other if one[1] else one
    return one if one[0] <= other[0] else other


def _earliest(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at is not None), default=None)


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((at for at in (one, other) if at is not None), default=None)


def _pipeline(known: Pipeline | None, told: Pipeline | None) -> Pipeline | None:
    if known is None or told is None:
        return known or told
    if told.id == known.id and told.name is not None:
        return told
    return known


def _parents(known: Parents, told: Parents) -> Parents:
    return Parents(
        flow_run=known.flow_run or told.flow_run, plan_run=known.plan_run or told.plan_run
    )


def _error(known: RunState, sighting: Sighting) -> str | None:
    if sighting.is_detail_final and sighting.error:
        return sighting.error
    return known.error or sighting.error


def _jobs(known: RunState, sighting: Sighting) -> JobsSeen | None:
    told, held = sighting.jobs, known.jobs
    if told is None or held is None:
        return told or held
    if known.detailed or sighting.key.kind is not RunKind.JOB_GROUP:
        return held
    is_older = held.read_at is not None and told.read_at is not None and told.read_at < held.read_at
    return held if is_older and not sighting.is_detail_final else told
