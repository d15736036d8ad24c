"""Merges the details of one observation into what is known of its run, in any order.

Every rule here commutes: whichever of two observations comes first, the same details remain. The
status is not merged here; `transitions` decides it.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from monitor.model.observations import Observation
from monitor.model.runs import (
    EndBasis,
    FailedPart,
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
from monitor.tracking.status_decision import changes_end, decides_derived_end

# Which word wins where two observations name different triggers; the more specific one knows more.
_TRIGGER_ORDER = (Trigger.UNKNOWN, Trigger.MANUAL, Trigger.API, Trigger.SCHEDULE, Trigger.PLAN)

_BEST_BASIS_FIRST = tuple(EndBasis)
_NEVER = datetime.max.replace(tzinfo=UTC)

Instant = tuple[datetime | None, bool]  # the instant, and whether it is approximate
Finish = tuple[datetime | None, EndBasis | None]  # both None where no end is known


def merge(known: RunState | None, observation: Observation) -> RunState:
    """Return the run with all that both show; its status is still the known one."""
    if known is None:
        known = RunState(
            key=observation.key,
            status=Status.PENDING,
            confirmed_at=observation.observed_at,
            confirmed_by=observation.source,
        )
    created, started = _created(known, observation), _started(known, observation)
    finished_at, finished_by = _observed_finish(observation)
    if finished_at is None or not decides_derived_end(known, observation):
        # The parts of an end that was derived may not have been all of them.
        known_finish = _known_finish(known, observation)
        finished_at, finished_by = _better_finish(known_finish, (finished_at, finished_by))
    is_near = (
        ("created_at", created[1]),
        ("started_at", started[1]),
        ("finished_at", finished_by not in (None, EndBasis.REPORTED)),
    )
    is_newer = observation.observed_at >= known.confirmed_at and not _claims_an_end(observation)
    return msgspec.structs.replace(
        known,
        created_at=created[0],
        started_at=started[0],
        finished_at=finished_at,
        finished_by=finished_by,
        updated_at=_latest(known.updated_at, observation.updated_at),
        approximate=tuple(name for name, is_approximate in is_near if is_approximate),
        pipeline=_pipeline(known.pipeline, observation.pipeline),
        recipe=known.recipe or observation.recipe,
        parents=_parents(known.parents, observation.parents),
        trigger=max(known.trigger, observation.trigger, key=_TRIGGER_ORDER.index),
        ran_for=known.ran_for or observation.ran_for,
        owner=known.owner or observation.owner,
        error=_error(known, observation),
        url=known.url or observation.url,
        failed_part=observation.failed_part
        if observation.are_parts_known
        else _first_failed(known.failed_part, observation.failed_part),
        jobs=_jobs(known, observation),
        is_called_back=known.is_called_back or observation.source is Source.CALLBACK,
        confirmed_at=observation.observed_at if is_newer else known.confirmed_at,
        confirmed_by=observation.source if is_newer else known.confirmed_by,
    )


def _created(known: RunState, observation: Observation) -> Instant:
    return _better(
        (known.created_at, "created_at" in known.approximate),
        (observation.created_at, "created_at" in observation.approximate),
    )


def _started(known: RunState, observation: Observation) -> Instant:
    return _better(
        (known.started_at, "started_at" in known.approximate),
        (observation.started_at, "started_at" in observation.approximate),
    )


def _known_finish(run: RunState, observation: Observation) -> Finish:
    if run.finished_at is not None and changes_end(run, observation):
        return run.finished_at, EndBasis.LAST_WRITE  # the time of another end, but of this run
    if run.finished_at is None or run.finished_by is not None:
        return run.finished_at, run.finished_by
    # Stored before bases were kept.
    is_near = "finished_at" in run.approximate
    return run.finished_at, EndBasis.DERIVED if is_near else EndBasis.REPORTED


def _observed_finish(observation: Observation) -> Finish:
    if observation.finished_at is not None:
        return observation.finished_at, observation.finished_by or _basis(observation)
    if observation.updated_at is not None and _shows_the_end(observation):
        # The last write of an ended run is the nearest stamp to its end that is reported.
        return observation.updated_at, EndBasis.LAST_WRITE
    return None, None


def _basis(observation: Observation) -> EndBasis:
    is_near = "finished_at" in observation.approximate
    is_derived = is_near or observation.jobs is not None
    return EndBasis.DERIVED if is_derived else EndBasis.REPORTED


def _better_finish(first: Finish, other: Finish) -> Finish:
    """Choose the better basis; of equal ones the earlier instant.

    The earlier, because an edit after the end moves the last write and never moves it back.
    """
    return min(first, other, key=_finish_order)


def _finish_order(finish: Finish) -> tuple[int, datetime]:
    at, basis = finish
    if at is None or basis is None:
        return len(_BEST_BASIS_FIRST), _NEVER
    return _BEST_BASIS_FIRST.index(basis), at


def _shows_the_end(observation: Observation) -> bool:
    return _names_an_end(observation) and observation.source is not Source.CALLBACK


def _claims_an_end(observation: Observation) -> bool:
    """True for what the workspace itself must still confirm."""
    return _names_an_end(observation) and observation.source is Source.CALLBACK


def _names_an_end(observation: Observation) -> bool:
    status = status_of(observation.native_status)
    return status is not None and status.is_terminal


def _better(first: Instant, other: Instant) -> Instant:
    """Choose between two: a reported instant before an approximate one, then the earlier."""
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


def _first_failed(known: FailedPart | None, observed: FailedPart | None) -> FailedPart | None:
    """Choose the part that failed first; of one part, what shows more of it."""
    if known is None or observed is None:
        return known or observed
    if known.key == observed.key:
        return FailedPart(
            key=known.key,
            name=known.name or observed.name,
            error=known.error or observed.error,
            failed_at=_earliest(known.failed_at, observed.failed_at),
        )
    return min(known, observed, key=lambda part: (part.failed_at or _NEVER, part.key))


def _error(known: RunState, observation: Observation) -> str | None:
    if observation.is_detail_final and observation.error:
        return observation.error
    return known.error or observation.error


def _jobs(known: RunState, observation: Observation) -> JobDetails | None:
    observed, before = observation.jobs, known.jobs
    if observed is None or before is None:
        return observed or before
    is_last = known.detailed and known.status.is_terminal
    if is_last or observation.key.kind is not RunKind.JOB_GROUP:
        return before
    is_older = (
        before.read_at is not None
        and observed.read_at is not None
        and observed.read_at < before.read_at
    )
    return before if is_older and not observation.is_detail_final else observed
