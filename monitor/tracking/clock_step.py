"""Our clock is set: what live state dates by it moves along, so that ages stay what they were.

Instants of the workspace stay. So do those of former lives of the daemon: by which clock they were
written is not known. What would lie in the future was observed by now: else nothing later would be
newer, and the run would never be read again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from monitor.model.inventory import Figures, Inventory
from monitor.model.live_state import (
    TokenStatus,
    UnsharedPipeline,
    UnwatchedCause,
    WorkspaceStatus,
)
from monitor.model.observations import Observation
from monitor.model.runs import RunState
from monitor.tracking.live_state import ClockStep, LiveState

_Cause = TypeVar("_Cause", bound=UnwatchedCause | UnsharedPipeline)
# Between an observation and its commit. After a smaller step its age is off by no more than that.
_UNDER_WAY = timedelta(seconds=120)


def move(live_state: LiveState, step: timedelta, *, now: datetime) -> None:
    """Our clock was set by this, and shows ``now``; below 0: back."""
    live_state.clock_step = ClockStep(now, step)
    for name, status in live_state.workspaces.items():
        live_state.workspaces[name] = _moved_status(status, step)
    for key, active in live_state.active.items():
        live_state.active[key] = msgspec.structs.replace(
            active,
            confirmed_at=active.confirmed_at + step,
            run=msgspec.structs.replace(active.run, confirmed_at=active.run.confirmed_at + step),
        )
    for poll_key, poll in live_state.polls.items():
        live_state.polls[poll_key] = msgspec.structs.replace(
            poll,
            last_attempt_at=poll.last_attempt_at + step,
            last_success_at=_moved(poll.last_success_at, step),
        )
    for kind, at in live_state.confirmed.items():
        live_state.confirmed[kind] = at + step
    for name, at in live_state.watched_until.items():
        live_state.watched_until[name] = at + step


def dated(observation: Observation, live_state: LiveState, now: datetime) -> Observation:
    """Return an observation as the clock of now dates it."""
    at = _present(observation.observed_at, live_state.clock_step, now)
    if at == observation.observed_at:
        return observation
    return msgspec.structs.replace(observation, observed_at=at)


def confirmed(run: RunState, live_state: LiveState, now: datetime) -> RunState:
    """Return a run that is to be kept as the clock of now dates its confirmation."""
    at = _present(run.confirmed_at, live_state.clock_step, now)
    return run if at == run.confirmed_at else msgspec.structs.replace(run, confirmed_at=at)


def recorded_as_of(now: datetime, at: datetime, last: ClockStep | None) -> datetime:
    """Return when an event was recorded ``at``, by the clock of now.

    In the log instants stay. Of a clock that was set forward, those before the step are certain; of
    one that was set back, those that are still to come.
    """
    if last is None:
        return at
    is_before = at < last.at if last.step > timedelta() else at > now
    return at + last.step if is_before else at


def _present(at: datetime, last: ClockStep | None, now: datetime) -> datetime:
    """Return an instant of ours that is not after now, and was moved if it was under way."""
    if last is not None and now - last.at <= _UNDER_WAY:
        moved = at + last.step
        # A clock that was set back has shown nothing since that is still to come.
        if last.step < timedelta() and at > now:
            return min(moved, now)
        if last.step > _UNDER_WAY and last.at - _UNDER_WAY <= moved <= last.at:
            return moved
    return min(at, now)


def _moved_status(status: WorkspaceStatus, step: timedelta) -> WorkspaceStatus:
    status = msgspec.structs.replace(status, token=_moved_token(status.token, step))
    if status.is_remembered:
        return status
    skew, set_back = status.clock_skew_seconds, status.clock_set_back
    too_many = status.too_many_runs
    return msgspec.structs.replace(
        status,
        since=_moved(status.since, step),
        known_at=_moved(status.known_at, step),
        last_callback_at=_moved(status.last_callback_at, step),
        clock_skew_seconds=None if skew is None else round(skew - step.total_seconds(), 3),
        refused=tuple(_moved_cause(cause, step) for cause in status.refused),
        doubted=tuple(_moved_cause(cause, step) for cause in status.doubted),
        too_many_runs=None if too_many is None else _moved_cause(too_many, step),
        clock_set_back=None if set_back is None else _moved_cause(set_back, step),
        unshared={key: _moved_cause(cause, step) for key, cause in status.unshared.items()},
        inventory=_moved_inventory(status.inventory, step),
        unreadable=tuple(
            msgspec.structs.replace(run, tried_at=run.tried_at + step) for run in status.unreadable
        ),
    )


def _moved_token(token: TokenStatus | None, step: timedelta) -> TokenStatus | None:
    """Return the token with the same ages; what is stored or configured with it stays."""
    if token is None:
        return None
    return msgspec.structs.replace(
        token,
        refreshed_at=_moved(token.refreshed_at, step),
        expires_at=_moved(token.expires_at, step),
    )


def _moved_inventory(inventory: Inventory, step: timedelta) -> Inventory:
    return msgspec.structs.replace(
        inventory,
        objects=_moved_figures(inventory.objects, step),
        tokens=_moved_figures(inventory.tokens, step),
        usage=_moved_figures(inventory.usage, step),
        connections=tuple(
            msgspec.structs.replace(connection, until=connection.until + step)
            for connection in inventory.connections
        ),
    )


def _moved_figures(figures: Figures | None, step: timedelta) -> Figures | None:
    if figures is None:
        return None
    return msgspec.structs.replace(figures, until=figures.until + step)


def _moved_cause(cause: _Cause, step: timedelta) -> _Cause:
    return msgspec.structs.replace(cause, since=cause.since + step)


def _moved(at: datetime | None, step: timedelta) -> datetime | None:
    return None if at is None else at + step
