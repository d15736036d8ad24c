"""State of a run + observation of it -> new state of the run + events.

Pure: no I/O and no clock. The rules, in the order in which they decide:

1. A run moves from none through pending and running to an end, and never back. What was skipped
   is filled in, so every run emits ``queued``, ``started`` and its end.
2. A word that we do not know counts as "not finished": it is kept and shown. With a start, job
   records at work or a run inside, the run is running; else the word moves nothing.
3. A run that the monitor does not know is not believed from a callback alone. The task of a flow
   is believed about runs of this flow only; while the flow of a run is unknown, it waits.
4. An end that only a callback reports is emitted at once and changes no status: the run goes on
   until the workspace reports an end. If that is another one, the first is corrected, once.
5. A run first observed at its end is *historical* if that end lies before the boundary: it becomes
   state and emits no event. Where only the job records can decide, they are needed.
6. The last end that the workspace reports stands; each other one that it reports later corrects
   the one before. One that may be older than the known end, or that alternates with it, is held
   back for a while. What sources without authority say against a reported end is remembered as a
   contradiction, once. An end that was derived from the parts of a run stands until the workspace
   reports one.
7. A time that was not reported stays None. An end that the run itself does not report is derived
   from its parts, else approximated by its last write, and marked so.
8. What a workspace reports and cannot be true is marked and never repaired: the times stay as they
   were reported. Once marked, a run stays so.

The status is decided in `status_decision`, the events in `event_derivation`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.model.events import RunEvent
from monitor.model.observations import Observation, ObservationOutcome
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
from monitor.tracking.detail_merge import merge
from monitor.tracking.event_derivation import carries_all, events_of, with_unsent_details
from monitor.tracking.status_decision import (
    believable,
    changes_end,
    is_out_of_scope,
    with_bounds,
    with_status,
)

# What moves while a run is active without anything having happened; never worth a commit.
_VOLATILE = ("confirmed_at", "confirmed_by", "updated_at", "jobs", "unfinished_at")

# Of clocks that are not quite in step; a stamp may also be cut to its second.
_CLOCK_TOLERANCE = timedelta(seconds=60)
_STAMP_TOLERANCE = timedelta(seconds=1)


class Boundary(Struct, frozen=True, kw_only=True):
    """Ends before the later of the two are historical. Both are workspace time, None is "no limit".

    ``followed_since`` is when we began to follow the workspace; ``forgotten_before`` is the
    horizon before which a finished run may have been published and forgotten.
    ``clock_skew_seconds`` is how far the workspace's clock is ahead of ours, None if unknown, and
    ``workspace_now`` what it shows; both by our clock as it is now. It ``may_be_ahead`` of that by
    so much: as long as answers contradict what was known of it.
    """

    followed_since: datetime | None = None
    forgotten_before: datetime | None = None
    clock_skew_seconds: float | None = None
    workspace_now: datetime | None = None
    may_be_ahead: timedelta = timedelta()

    def observed_at(self, observation: Observation) -> datetime | None:
        """Return when it was observed, by the workspace's clock; None where that is not known.

        Our clock may have been set since, so that the skew is another one. What was read was read
        just now; a callback may have waited, but not until after now.
        """
        if self.clock_skew_seconds is None:
            return None
        if self.workspace_now is not None and observation.source is not Source.CALLBACK:
            return self.workspace_now
        at = observation.observed_at + timedelta(seconds=self.clock_skew_seconds)
        at = max(at, observation.requested_at or at)
        return min(at, self.workspace_now or at)

    @property
    def instant(self) -> datetime | None:
        limits = [at for at in (self.followed_since, self.forgotten_before) if at is not None]
        return max(limits, default=None)


class RunTransition(Struct, frozen=True, kw_only=True):
    """What came of one observation. ``state`` is None where the run stays unknown.

    ``is_worth_storing`` is False where only freshness changed. ``implausible`` is what this
    observation was the first to show.
    """

    outcome: ObservationOutcome
    state: RunState | None
    events: tuple[RunEvent, ...] = ()
    is_worth_storing: bool = False
    implausible: tuple[Implausible, ...] = ()

    @property
    def is_active(self) -> bool:
        """True where the run is known and has not ended."""
        return self.state is not None and not self.state.status.is_terminal


def advance(known: RunState | None, observation: Observation, boundary: Boundary) -> RunTransition:
    """Apply one observation to what is known of its run. Total: every input has an answer."""
    if known is None and (observation.source is Source.CALLBACK or observation.is_gone):
        outcome = (
            ObservationOutcome.UNCHANGED if observation.is_gone else ObservationOutcome.UNCONFIRMED
        )
        return RunTransition(outcome=outcome, state=None)
    if known is not None and is_out_of_scope(known, observation):
        is_unknown = known.pipeline is None
        outcome = ObservationOutcome.UNCONFIRMED if is_unknown else ObservationOutcome.OTHER_FLOW
        return RunTransition(outcome=outcome, state=known)
    observation = believable(known, observation)
    observed_at = boundary.observed_at(observation)
    at = observed_at or observation.observed_at
    state = with_bounds(
        known,
        with_status(known, merge(known, observation), observation, observed_at=at),
        observation,
        observed_at=at,
    )
    latest = None if observed_at is None else observed_at + boundary.may_be_ahead
    state = _with_implausible(known, state, observation, observed_at=latest)
    state = with_unsent_details(known, state)
    if known is None and state.status.is_terminal:
        is_old = _is_historical(state, observation, boundary)
        if is_old is None:
            return RunTransition(outcome=ObservationOutcome.NEEDS_DETAIL, state=None)
        state = msgspec.structs.replace(state, historical=is_old)
    return _transition(known, state, observation)


def _transition(known: RunState | None, state: RunState, observation: Observation) -> RunTransition:
    events = () if state.historical else events_of(known, state, observation)
    if carries_all(events):
        state = msgspec.structs.replace(state, has_unsent_details=False)
    is_new = known is None or not _is_same(known, state)
    if known is not None and _contradicts(known, state, observation):
        outcome = ObservationOutcome.CONTRADICTED
    elif events:
        outcome = ObservationOutcome.CHANGED
    elif known is None:
        outcome = ObservationOutcome.HISTORICAL
    else:
        outcome = ObservationOutcome.ENRICHED if is_new else ObservationOutcome.UNCHANGED
    return RunTransition(
        outcome=outcome,
        state=state,
        events=events,
        is_worth_storing=is_new or bool(events),
        implausible=tuple(
            mark for mark in state.implausible if known is None or mark not in known.implausible
        ),
    )


def _contradicts(known: RunState, state: RunState, observation: Observation) -> bool:
    """True where an end is held back, and where a source without authority names one first."""
    if changes_end(known, observation):
        return state.corrections == known.corrections
    return state.contradiction is not None and state.contradiction != known.contradiction


def _is_same(known: RunState, state: RunState) -> bool:
    freshness = {name: getattr(known, name) for name in _VOLATILE}
    return msgspec.structs.replace(state, **freshness) == known


def _is_historical(state: RunState, observation: Observation, boundary: Boundary) -> bool | None:
    """Derive the end of a run first observed at its end; None where only job records can decide."""
    limit = boundary.instant
    if limit is None:
        return False
    if state.created_at is not None and state.created_at >= limit:
        return False  # whatever end is reported
    if state.finished_at is not None and state.finished_by is not EndBasis.LAST_WRITE:
        return state.finished_at < limit
    # The end lies between the creation and the last write.
    if state.updated_at is not None and state.updated_at < limit:
        return True
    if state.key.kind is RunKind.JOB_GROUP and not observation.is_detail_final:
        return None
    return _was_likely_published(state, limit, boundary.forgotten_before)


def _was_likely_published(state: RunState, limit: datetime, horizon: datetime | None) -> bool:
    if state.finished_at is not None and state.finished_at < limit:
        return True
    # An old run that was edited, and whose end is not known: nothing runs for so long.
    return horizon is not None and state.created_at is not None and state.created_at < horizon


def _with_implausible(
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
