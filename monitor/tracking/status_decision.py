"""Decides the status of a run after an observation, and between which instants it ended. Pure.

The workspace decides, also against an end that was derived from the parts of a run, and against
the end that it had reported before. An end that only a callback reports is kept beside the status,
as ``unconfirmed_end``, until the workspace reports an end or the run is gone.

A run ended between the last read before its end and the first sight of it. Observations carry our
clock; these bounds are workspace time, as every instant of a run is.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from monitor.model.observations import Observation
from monitor.model.runs import (
    Implausible,
    JobDetails,
    PipelineKind,
    RunState,
    Source,
    Status,
    status_of,
)

# A workspace whose answers alternate must not flood: so many changes of a run's end are believed at
# once, each further one so long after the last. So long, too, an end is held back that may be older
# than the known one; what is still reported then is what the workspace says.
_CORRECTED_AT_ONCE = 3
_DOUBTED_FOR = timedelta(minutes=30)
_BY_RECORDS = (Implausible.COMPLETE_WITH_FAILED_JOBS,)
_WITHOUT_AUTHORITY = (Source.CALLBACK, Source.DETAIL, Source.PARTS)


def is_out_of_scope(known: RunState, observation: Observation) -> bool:
    """True where only runs of one flow may be observed so, and this is none, for all we know."""
    flow_id, pipeline = observation.only_of_flow, known.pipeline
    if flow_id is None:
        return False
    return pipeline is None or (pipeline.kind, pipeline.id) != (PipelineKind.FLOW, flow_id)


def believable(known: RunState | None, observation: Observation) -> Observation:
    """Return the observation without an end that only a callback lets its job records show.

    The records of a run that goes on show no end, whatever a callback says of it.
    """
    if known is None or _is_over(known) or not observation.is_detail_final:
        return observation
    if _ends(observation) and observation.source is not Source.CALLBACK:
        return observation
    if observation.jobs is not None and _are_over(observation.jobs):
        return observation
    return msgspec.structs.replace(
        observation,
        is_detail_final=False,
        finished_at=None,
        finished_by=None,
        approximate=tuple(name for name in observation.approximate if name != "finished_at"),
        error=None,
    )


def with_status(
    known: RunState | None, merged: RunState, observation: Observation, *, observed_at: datetime
) -> RunState:
    """Return the merged state with its status; it still has the one that was known before.

    ``observed_at`` is workspace time.
    """
    observed = status_of(observation.native_status)
    if known is not None and _is_over(known):
        return _after_the_end(known, merged, observation, observed_at)
    if observation.is_gone:
        return _gone(merged, observation)
    if observed is not None and observed.is_terminal:
        if observation.source is Source.CALLBACK:
            return _claimed(merged, observed, observation)
        return _ended(merged, observed, observation)
    return _going_on(merged, observed, observation)


def decides_derived_end(known: RunState, observation: Observation) -> bool:
    """True where the workspace reports an end that was only derived so far: the same or another."""
    is_read = observation.source not in _WITHOUT_AUTHORITY
    return known.has_derived_end and is_read and _ends(observation)


def changes_end(known: RunState, observation: Observation) -> bool:
    """True where the workspace reports another end than was derived, or than it had reported."""
    is_read = observation.source not in _WITHOUT_AUTHORITY
    is_other = status_of(observation.native_status) is not known.status
    return _is_over(known) and is_read and is_other and _ends(observation)


def _must_wait(known: RunState, observation: Observation, observed_at: datetime) -> bool:
    """True for another end that is held back for now. Clocks may have been set, both ways."""
    last = known.end_seen_at
    if known.has_derived_end or last is None or abs(observed_at - last) >= _DOUBTED_FOR:
        return False
    return known.corrections >= _CORRECTED_AT_ONCE or _may_be_older(known, observation, last)


def _may_be_older(known: RunState, observation: Observation, last: datetime) -> bool:
    """True where the answer may show the run as it was before its known end was reported."""
    written, before = observation.updated_at, known.updated_at
    if written is not None and before is not None and not _is_ahead(known):
        # Lists and reads differ in digits.
        written, before = written.replace(microsecond=0), before.replace(microsecond=0)
        if written != before:
            return written < before
    return observation.requested_at is not None and observation.requested_at < last


def _is_ahead(run: RunState) -> bool:
    return Implausible.IN_THE_FUTURE in run.implausible


def _is_over(run: RunState) -> bool:
    """True where the workspace itself has reported the end, or lost the run."""
    return run.status.is_terminal and run.unconfirmed_end is None


def _ends(observation: Observation) -> bool:
    status = status_of(observation.native_status)
    return status is not None and status.is_terminal


def _are_over(jobs: JobDetails) -> bool:
    words = [count.status for count in jobs.counts]
    return bool(words) and all(word in _ENDS for word in words)


_ENDS = frozenset(status.value for status in Status if status.is_terminal)
_AT_WORK = _ENDS | {Status.RUNNING.value}


def _after_the_end(
    known: RunState, merged: RunState, observation: Observation, observed_at: datetime
) -> RunState:
    observed = status_of(observation.native_status)
    if observed is not None and changes_end(known, observation):
        if not _must_wait(known, observation, observed_at):
            return _corrected(merged, observed, observation)
        return msgspec.structs.replace(known, contradiction=observation.native_status)
    if observed is not None and decides_derived_end(known, observation):
        merged = _ended(merged, observed, observation)
    is_other = observed is not None and observed is not known.status and not observation.is_gone
    if is_other and observation.source is Source.DETAIL:
        return known  # read for the end before
    # An earlier state observed late is no contradiction, unless the run was thought to be gone.
    contradicts = is_other and (_ends(observation) or known.status is Status.LOST)
    if contradicts and known.contradiction is None:
        return msgspec.structs.replace(
            known, contradiction=observation.native_status, is_called_back=merged.is_called_back
        )
    if _has_other_reason(known, merged):
        return msgspec.structs.replace(
            merged,
            corrections=merged.corrections + 1,
            detailed=observation.is_detail_final,
            error=observation.error,
        )
    return msgspec.structs.replace(merged, detailed=merged.detailed or observation.is_detail_final)


def _has_other_reason(known: RunState, merged: RunState) -> bool:
    """True where the part that explained a run failed no more when its parts were read again."""
    before, after = known.failed_part, merged.failed_part
    return known.detailed and before is not None and (after is None or after.key != before.key)


def _corrected(merged: RunState, end: Status, observation: Observation) -> RunState:
    """Return the run with its other end. What its records showed is of the end before."""
    return msgspec.structs.replace(
        _ended(merged, end, observation),
        corrections=merged.corrections + 1,
        contradiction=None,
        was_detailed=merged.was_detailed or merged.detailed,
        jobs=observation.jobs,
        detailed=observation.is_detail_final,
        error=observation.error,
        failed_part=observation.failed_part,
        implausible=tuple(mark for mark in merged.implausible if mark not in _BY_RECORDS),
    )


def _gone(merged: RunState, observation: Observation) -> RunState:
    if merged.unconfirmed_end is not None:
        # Nothing will ever confirm or correct what the callback said, so that stands.
        return msgspec.structs.replace(
            merged, status=merged.unconfirmed_end, ended_by=Source.CALLBACK
        )
    return msgspec.structs.replace(merged, status=Status.LOST, ended_by=observation.source)


def _claimed(merged: RunState, claim: Status, observation: Observation) -> RunState:
    detailed = merged.detailed or observation.is_detail_final
    if merged.unconfirmed_end is None:
        return msgspec.structs.replace(merged, unconfirmed_end=claim, detailed=detailed)
    if claim is not merged.unconfirmed_end and merged.contradiction is None:
        return msgspec.structs.replace(
            merged, detailed=detailed, contradiction=observation.native_status
        )
    return msgspec.structs.replace(merged, detailed=detailed)


def _ended(merged: RunState, end: Status, observation: Observation) -> RunState:
    return msgspec.structs.replace(
        merged,
        status=end,
        native_status=observation.native_status,
        ended_by=observation.source,
        unconfirmed_end=None,
        detailed=merged.detailed or observation.is_detail_final,
    )


def _shows_it_goes_on(observed: Status | None, observation: Observation) -> bool:
    is_read = observation.source not in (Source.CALLBACK, Source.DETAIL)
    return is_read and observed is not None


def _without_claimed_details(merged: RunState) -> RunState:
    """Return a claimed run without the end that its job records showed: more jobs may come."""
    return msgspec.structs.replace(
        merged,
        finished_at=None,
        finished_by=None,
        approximate=tuple(name for name in merged.approximate if name != "finished_at"),
        error=None,
        detailed=False,
    )


def _going_on(merged: RunState, observed: Status | None, observation: Observation) -> RunState:
    if merged.unconfirmed_end is not None and _shows_it_goes_on(observed, observation):
        merged = _without_claimed_details(merged)
    # Records that a callback caused to be read are not read again once its end is confirmed.
    detailed = merged.unconfirmed_end is not None and (
        merged.detailed or observation.is_detail_final
    )
    word = observation.native_status or merged.native_status
    if observed is None and word is not None and status_of(word) is None:
        # The word does not say whether the run waits or works.
        observed = Status.RUNNING if _shows_work(merged, observation) else None
    if merged.status.is_terminal or (
        merged.status is Status.RUNNING and observed is Status.PENDING
    ):
        return msgspec.structs.replace(merged, detailed=detailed)
    return msgspec.structs.replace(
        merged,
        status=observed or merged.status,
        native_status=word,
        detailed=detailed,
    )


def _shows_work(merged: RunState, observation: Observation) -> bool:
    has_started = merged.started_at is not None and "started_at" not in merged.approximate
    if has_started or observation.has_children:
        return True
    jobs = merged.jobs
    return jobs is not None and (
        bool(jobs.percent_complete)
        or jobs.heartbeat_at is not None
        or any(count.status in _AT_WORK for count in jobs.counts)
    )


def with_bounds(
    known: RunState | None,
    state: RunState,
    observation: Observation,
    *,
    observed_at: datetime,
) -> RunState:
    """Return the state with what the observation shows of when the run ended.

    ``known`` is the run before the observation, ``state`` after it; ``observed_at`` is workspace
    time.
    """
    before = None if known is None else known.known_end
    if state.known_end is not before or (known is not None and _was_refuted(known, state)):
        return msgspec.structs.replace(state, end_seen_at=observed_at)
    if state.status.is_terminal or not _shows_that_it_goes_on(state, observation):
        return state
    # The answer may show the run as it was when the read began, and it may have ended since.
    shown_at = min(observation.requested_at or observed_at, observed_at)
    return msgspec.structs.replace(state, unfinished_at=_later(state.unfinished_at, shown_at))


def _was_refuted(run: RunState, after: RunState) -> bool:
    """True for an end that a callback had reported and a read had shown unfinished since."""
    if run.unconfirmed_end is None or after.unconfirmed_end is not None:
        return False
    seen_at, unfinished_at = run.end_seen_at, run.unfinished_at
    return seen_at is not None and unfinished_at is not None and unfinished_at > seen_at


def _shows_that_it_goes_on(state: RunState, observation: Observation) -> bool:
    """True where the workspace itself showed a run that has not ended.

    Not a callback, which may be forged or late; nor a read that lags behind what is known.
    """
    if observation.source is Source.CALLBACK or observation.may_have_ended:
        return False
    if observation.native_status is None:
        return False
    lags = status_of(observation.native_status) is Status.PENDING
    return not lags or state.status is Status.PENDING


def _later(first: datetime | None, other: datetime) -> datetime:
    return other if first is None else max(first, other)
