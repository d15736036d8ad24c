"""Between which instants a run ended: the last read before its end and the first sight of it. Pure.

Observations carry our clock; the bounds are workspace time, as every instant of a run is.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from monitor.model.observations import Observation
from monitor.model.runs import RunState, Source, Status, status_of


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
