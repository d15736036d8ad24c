"""Derives the events of a run from a change of its state. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from monitor.model.ends import run_end
from monitor.model.events import STATUS_EVENTS, EventType, RunEvent, run_event_id
from monitor.model.observations import Observation
from monitor.model.runs import JobDetails, RunState, Source, Status

_PATH = (Status.PENDING, Status.RUNNING)
# What may become known of a run after its end, besides its job records.
_DETAILS = ("error", "failed_part", "finished_at", "finished_by", "implausible")


def events_of(
    known: RunState | None, state: RunState, observation: Observation
) -> tuple[RunEvent, ...]:
    """Return the events of one observation in their order; ``known`` is the run before it.

    The end that a callback claims and the end that the workspace reports are one end, whose event
    goes out with the first of them. Where they differ, both go out, and so where the workspace
    changes the end that it had reported, or the end of the part that explained it.
    """
    before = None if known is None else known.known_end or known.status
    after = state.known_end or state.status
    events = [
        _event(state, STATUS_EVENTS[step], step, before=before, observation=observation)
        for step in _steps(before, after)
    ]
    is_corrected = known is not None and known.corrections != state.corrections
    if is_corrected or (before is not None and before.is_terminal and before is not after):
        events += [
            _event(state, event_type, after, before=before, observation=observation)
            for event_type in (EventType.RUN_CORRECTED, STATUS_EVENTS[after])
        ]
    if not events and _is_confirmed(known, state):
        events.append(
            _event(state, EventType.RUN_CONFIRMED, after, before=before, observation=observation)
        )
    if _brings_details(known, state):
        events.append(
            _event(state, EventType.RUN_DETAILED, after, before=after, observation=observation)
        )
    return tuple(events)


def with_unsent_details(known: RunState | None, state: RunState) -> RunState:
    """Return the state marked where more became known of its end than the end's event said."""
    if known is None or known.known_end is None or state.has_unsent_details:
        return state
    is_more = any(getattr(known, name) != getattr(state, name) for name in _DETAILS)
    return msgspec.structs.replace(
        state, has_unsent_details=is_more or _order(known) != _order(state)
    )


def carries_all(events: Iterable[RunEvent]) -> bool:
    """True where one of the events carries all that is known of the run's end."""
    return any(event.run.status.is_terminal for event in events)


def _order(run: RunState) -> tuple[datetime, bool, str] | None:
    end = run_end(run)
    return None if end is None else end.order


def _steps(before: Status | None, after: Status) -> tuple[Status, ...]:
    """Return the statuses that a run went through, after ``before`` up to ``after``."""
    if before is after or (before is not None and before.is_terminal):
        return ()
    path = (*_PATH, after) if after.is_terminal else _PATH[: _PATH.index(after) + 1]
    return path if before is None else path[_PATH.index(before) + 1 :]


def _brings_details(known: RunState | None, state: RunState) -> bool:
    """True where the last read of an ended run shows what no event of it has carried."""
    if not state.detailed or state.unconfirmed_end is not None:
        return False  # what was read for a callback counts once its end is confirmed
    if known is not None and known.detailed and known.unconfirmed_end is None:
        # Those of another end are others.
        return known.corrections != state.corrections and state.jobs is not None
    return state.jobs is not None or state.has_unsent_details


def _is_confirmed(known: RunState | None, state: RunState) -> bool:
    return known is not None and known.unconfirmed_end is not None and state.unconfirmed_end is None


def _event(
    state: RunState,
    event_type: EventType,
    status: Status,
    *,
    before: Status | None,
    observation: Observation,
) -> RunEvent:
    if status.is_terminal:
        run, occurred_at = _as_ended(state, status, observation), state.finished_at
    else:
        run, occurred_at = _as_of(state, status)
    return RunEvent(
        id=run_event_id(
            state.key, event_type, correction=state.corrections if status.is_terminal else 0
        ),
        type=event_type,
        run=run,
        before=before,
        occurred_at=occurred_at,
        recorded_at=observation.observed_at,
        observed_by=observation.source,
    )


def _as_ended(state: RunState, end: Status, observation: Observation) -> RunState:
    """Return the run with its end, also one that only a callback has reported."""
    run = msgspec.structs.replace(
        state, jobs=_without_records(state.jobs), has_unsent_details=False
    )
    if state.unconfirmed_end is None:
        return run
    is_claim = observation.source is Source.CALLBACK
    word = observation.native_status if is_claim else None
    return msgspec.structs.replace(run, status=end, native_status=word, ended_by=Source.CALLBACK)


def _without_records(jobs: JobDetails | None) -> JobDetails | None:
    """Return the sums alone: the records stay with the run, the log would hold them again."""
    if jobs is None or not jobs.records:
        return jobs
    return msgspec.structs.replace(jobs, records=())


def _as_of(state: RunState, status: Status) -> tuple[RunState, datetime | None]:
    """Return the run as it was when it began to wait or to run, and when that was."""
    is_running = status is Status.RUNNING
    started_at = state.started_at if is_running else None
    reached = ("created_at", "started_at") if is_running else ("created_at",)
    run = msgspec.structs.replace(
        state,
        status=status,
        native_status=state.native_status if state.status is status else None,
        started_at=started_at,
        finished_at=None,
        approximate=tuple(name for name in state.approximate if name in reached),
        finished_by=None,
        unfinished_at=None,
        end_seen_at=None,
        unconfirmed_end=None,
        implausible=(),
        error=None,
        failed_part=None,
        jobs=None,
        detailed=False,
        ended_by=None,
    )
    return run, started_at if is_running else state.created_at
