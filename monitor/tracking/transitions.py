"""State of a run + observation of it -> new state of the run + events.

Pure: no I/O and no clock. The rules, in the order in which they decide:

1. A run moves from none through pending and running to one end, never back and never out of an
   end. What was skipped is filled in, so every run emits ``queued``, ``started`` and its end.
2. A word that we do not know counts as "not finished": it is kept and shown, and moves nothing.
3. A run that the monitor does not know is not believed from a callback alone.
4. A run first observed at its end is *historical* if that end lies before the boundary: it becomes
   state and emits no event. Where only the job records can decide, they are needed.
5. The first end stands. Another end reported later is remembered as a contradiction, once.
6. A time that was not reported stays None. An end that the run itself does not report is derived
   from its parts, else approximated by its last write, and marked so.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from monitor.model.ends import run_end
from monitor.model.events import STATUS_EVENTS, EventType, RunEvent, run_event_id
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import EndBasis, RunKind, RunState, Source, Status, status_of
from monitor.tracking.end_bounds import with_bounds
from monitor.tracking.merging import merge

_PATH = (Status.PENDING, Status.RUNNING)
# What moves while a run is active without anything having happened; never worth a commit.
_VOLATILE = ("confirmed_at", "confirmed_by", "updated_at", "jobs", "unfinished_at")
# What may become known of a run after its end, besides its job records.
_DETAILS = ("error", "failed_part", "finished_at", "finished_by", "implausible")


class Boundary(Struct, frozen=True, kw_only=True):
    """Ends before the later of the two are historical. Both are workspace time, None is "no limit".

    ``followed_since`` is when we began to follow the workspace; ``forgotten_before`` is the
    horizon behind which a finished run may have been published and forgotten.
    ``clock_skew_seconds`` is how far the workspace's clock is ahead of ours.
    """

    followed_since: datetime | None = None
    forgotten_before: datetime | None = None
    clock_skew_seconds: float = 0.0

    @property
    def instant(self) -> datetime | None:
        limits = [at for at in (self.followed_since, self.forgotten_before) if at is not None]
        return max(limits, default=None)


class RunTransition(Struct, frozen=True, kw_only=True):
    """What came of one observation. ``state`` is None where the run stays unknown.

    ``is_worth_storing`` is False where only freshness changed.
    """

    outcome: ObservationOutcome
    state: RunState | None
    events: tuple[RunEvent, ...] = ()
    is_worth_storing: bool = False


def advance(known: RunState | None, observation: Observation, boundary: Boundary) -> RunTransition:
    """Apply one observation to what is known of its run. Total: every input has an answer."""
    if known is None and (observation.source is Source.CALLBACK or observation.is_gone):
        outcome = (
            ObservationOutcome.UNCHANGED if observation.is_gone else ObservationOutcome.UNCONFIRMED
        )
        return RunTransition(outcome=outcome, state=None)
    state = with_bounds(
        known,
        _with_status(known, merge(known, observation), observation),
        observation,
        clock_skew_seconds=boundary.clock_skew_seconds,
    )
    state = _with_unsent_details(known, state)
    if known is None and state.status.is_terminal:
        is_old = _is_historical(state, observation, boundary)
        if is_old is None:
            return RunTransition(outcome=ObservationOutcome.NEEDS_DETAIL, state=None)
        state = msgspec.structs.replace(state, historical=is_old)
    return _transition(known, state, observation)


def _transition(known: RunState | None, state: RunState, observation: Observation) -> RunTransition:
    events = () if state.historical else _events(known, state, observation)
    if any(event.type is EventType.RUN_DETAILED for event in events):
        state = msgspec.structs.replace(state, has_unsent_details=False)
    if known is not None and state.contradiction != known.contradiction:
        outcome = ObservationOutcome.CONTRADICTED
    elif events:
        outcome = ObservationOutcome.CHANGED
    elif known is None:
        outcome = ObservationOutcome.HISTORICAL
    elif _is_same(known, state):
        outcome = ObservationOutcome.UNCHANGED
    else:
        outcome = ObservationOutcome.ENRICHED
    return RunTransition(
        outcome=outcome,
        state=state,
        events=events,
        is_worth_storing=outcome is not ObservationOutcome.UNCHANGED,
    )


def _is_same(known: RunState, state: RunState) -> bool:
    freshness = {name: getattr(known, name) for name in _VOLATILE}
    return msgspec.structs.replace(state, **freshness) == known


def _with_status(known: RunState | None, merged: RunState, observation: Observation) -> RunState:
    """Decide the status of the merged state."""
    before = known.status if known is not None else None
    observed = Status.LOST if observation.is_gone else status_of(observation.native_status)
    if before is not None and before.is_terminal:
        return _after_the_end(merged, before, observed, observation)
    if observed is None:
        word = observation.native_status or merged.native_status
        return msgspec.structs.replace(
            merged, status=before or Status.PENDING, native_status=word, detailed=False
        )
    if before is Status.RUNNING and observed is Status.PENDING:
        return msgspec.structs.replace(merged, status=before, detailed=False)
    word = merged.native_status if observation.is_gone else observation.native_status
    return msgspec.structs.replace(
        merged,
        status=observed,
        native_status=word,
        ended_by=observation.source if observed.is_terminal else None,
        detailed=observation.is_detail_final and observed.is_terminal,
    )


def _after_the_end(
    merged: RunState, end: Status, observed: Status | None, observation: Observation
) -> RunState:
    detailed = merged.detailed or observation.is_detail_final
    is_other = observed is not None and observed is not end and not observation.is_gone
    # An earlier state observed late is no contradiction, unless the run was thought to be gone.
    contradicts = is_other and observed is not None and (observed.is_terminal or end is Status.LOST)
    if contradicts and merged.contradiction is None:
        return msgspec.structs.replace(
            merged, detailed=detailed, contradiction=observation.native_status
        )
    if observed is end and merged.ended_by is Source.CALLBACK:
        # The API's own spelling, so that the state does not depend on who came first.
        return msgspec.structs.replace(
            merged, detailed=detailed, native_status=observation.native_status
        )
    return msgspec.structs.replace(merged, detailed=detailed)


def _is_historical(state: RunState, observation: Observation, boundary: Boundary) -> bool | None:
    """Derive the end of a run first observed at its end; None where only job records can decide."""
    limit = boundary.instant
    if limit is None:
        return False
    if state.finished_at is not None and state.finished_by is not EndBasis.LAST_WRITE:
        return state.finished_at < limit
    # The end lies between the creation and the last write.
    if state.updated_at is not None and state.updated_at < limit:
        return True
    if state.created_at is not None and state.created_at >= limit:
        return False
    if state.key.kind is RunKind.JOB_GROUP and not observation.is_detail_final:
        return None
    return _was_likely_published(state, limit, boundary.forgotten_before)


def _was_likely_published(state: RunState, limit: datetime, horizon: datetime | None) -> bool:
    if state.finished_at is not None and state.finished_at < limit:
        return True
    # An old run that was edited, and whose end is not known: nothing runs for so long.
    return horizon is not None and state.created_at is not None and state.created_at < horizon


def _events(
    known: RunState | None, state: RunState, observation: Observation
) -> tuple[RunEvent, ...]:
    before = known.status if known is not None else None
    steps = _steps(before, state.status)
    events = [
        _event(state, STATUS_EVENTS[step], step, before=before, observation=observation)
        for step in steps
    ]
    if _brings_details(known, state):
        events.append(
            _event(
                state,
                EventType.RUN_DETAILED,
                state.status,
                before=state.status,
                observation=observation,
            )
        )
    return tuple(events)


def _brings_details(known: RunState | None, state: RunState) -> bool:
    """True where the last read of an ended run shows what no event of it has carried."""
    if not state.detailed or (known is not None and known.detailed):
        return False
    return state.jobs is not None or state.has_unsent_details


def _with_unsent_details(known: RunState | None, state: RunState) -> RunState:
    if known is None or not known.status.is_terminal or state.has_unsent_details:
        return state  # the event of its end carries all that is known
    is_more = any(getattr(known, name) != getattr(state, name) for name in _DETAILS)
    return msgspec.structs.replace(
        state, has_unsent_details=is_more or _order(known) != _order(state)
    )


def _order(run: RunState) -> tuple[datetime, bool, str] | None:
    end = run_end(run)
    return None if end is None else end.order


def _steps(before: Status | None, after: Status) -> tuple[Status, ...]:
    """Return the statuses that a run went through, from behind ``before`` up to ``after``."""
    if before is after or (before is not None and before.is_terminal):
        return ()
    path = (*_PATH, after) if after.is_terminal else _PATH[: _PATH.index(after) + 1]
    return path if before is None else path[_PATH.index(before) + 1 :]


def _event(
    state: RunState,
    event_type: EventType,
    status: Status,
    *,
    before: Status | None,
    observation: Observation,
) -> RunEvent:
    run, occurred_at = _as_of(state, status)
    return RunEvent(
        id=run_event_id(state.key, event_type),
        type=event_type,
        run=run,
        before=before,
        occurred_at=occurred_at,
        recorded_at=observation.observed_at,
        observed_by=observation.source,
    )


def _as_of(state: RunState, status: Status) -> tuple[RunState, datetime | None]:
    """Return the run as it was at one transition, and when that was."""
    if status.is_terminal:
        return state, state.finished_at
    is_running = status is Status.RUNNING
    started_at = state.started_at if is_running else None
    run = msgspec.structs.replace(
        state,
        status=status,
        native_status=state.native_status if state.status is status else None,
        started_at=started_at,
        finished_at=None,
        approximate=tuple(
            name for name in state.approximate if is_running and name == "started_at"
        ),
        finished_by=None,
        unfinished_at=None,
        end_seen_at=None,
        error=None,
        failed_part=None,
        jobs=None,
        detailed=False,
        ended_by=None,
    )
    return run, started_at if is_running else state.created_at
