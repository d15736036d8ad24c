"""The skew of workspaces' clocks against ours: by their answers, else by their stamps.

Answers without ``Date`` show no time. Then the newest stamps do: they were written before they were
read, so the workspace's clock shows no less. An end without a reported time is ordered by
that: after all that is known, and before all that follows. One run whose stamp is ahead of those of
all others may be wrong, so the second newest counts; each is forgotten after an hour.

A ``Date`` that contradicts the others is not believed at once. Until then the newest stamp bears it
out: a clock that was set ahead also writes later stamps, a proxy that is wrong does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from monitor.model.clock import Clock
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, Source
from monitor.tracking.live_state import LiveState

ClockSkew = Callable[[], float | None]
ClockDoubt = Callable[[], float]  # seconds by which the clock may be further ahead than its skew

# Stamps further away are of the past, or cannot be true. After so long no stamp is needed either:
# what is not dated sorts after it by our clock, too.
_MOST_SECONDS = 3_600.0
# A run whose end lies this close to the horizon may have been forgotten already.
_MARGIN = timedelta(hours=1)
_OWN_STAMPS = frozenset({Source.POLL, Source.RECONCILIATION, Source.DETAIL, Source.TRACK})


class _Stamp(NamedTuple):
    """The newest one of a run, less our monotonic time of then, which is ``read_at``."""

    least: float
    read_at: float
    run: RunKey


class WorkspaceClocks:
    """Asked at each observation, because our clock may have been set since the last."""

    def __init__(self, live_state: LiveState, clock: Clock) -> None:
        self._live_state = live_state
        self._clock = clock
        self._measured: dict[str, ClockSkew] = {}
        self._doubts: dict[str, ClockDoubt] = {}
        self._newest: dict[str, list[_Stamp]] = {}  # of two runs, the newest first

    def measure(self, workspace: str, skew: ClockSkew, doubt: ClockDoubt | None = None) -> None:
        """Let ``skew`` answer for a workspace; None: its answers show no time."""
        self._measured[workspace] = skew
        if doubt is not None:
            self._doubts[workspace] = doubt

    def forget(self, workspace: str) -> None:
        self._measured.pop(workspace, None)
        self._doubts.pop(workspace, None)
        self._newest.pop(workspace, None)

    def learn(self, observations: Iterable[Observation]) -> None:
        """Take in the stamps of what was just read."""
        now, monotonic = self._clock.now().timestamp(), self._clock.monotonic()
        for observation in observations:
            workspace, stamp = observation.key.workspace, _newest_stamp(observation)
            if stamp is not None and abs(stamp - now) <= _MOST_SECONDS:
                newest = {
                    known.run: known
                    for known in self._newest.get(workspace, ())
                    if monotonic - known.read_at < _MOST_SECONDS
                }
                read = _Stamp(stamp - monotonic, monotonic, observation.key)
                newest[read.run] = max(read, newest.get(read.run, read))
                self._newest[workspace] = sorted(newest.values(), reverse=True)[:2]

    def may_be_ahead(self, workspace: str) -> timedelta:
        """Return how much further ahead its clock may be, by answers that are not believed yet."""
        doubt = self._doubts.get(workspace)
        return timedelta(seconds=0.0 if doubt is None else doubt())

    def skew_seconds(self, workspace: str) -> float | None:
        """Return how far its clock is ahead of ours now; None while nothing shows it."""
        measured = self._measured.get(workspace)
        if measured is None:
            status = self._live_state.workspaces.get(workspace)
            skew = status.clock_skew_seconds if status is not None else None
        else:
            skew = measured()
        newest = self._newest.get(workspace)
        if not newest:
            return skew
        elapsed = self._clock.monotonic() - self._clock.now().timestamp()
        if skew is None:
            return newest[-1].least + elapsed
        latest = skew + self.may_be_ahead(workspace).total_seconds()
        return max(skew, min(newest[0].least + elapsed, latest))


class ForgetHorizon:
    """The horizon before which an ended run may have been emitted and forgotten.

    Follows the workspace's clock, but never ahead of the time that has passed here.
    """

    def __init__(self, clock: Clock, *, forget_seconds: float) -> None:
        self._clock = clock
        self._reach = _MARGIN - timedelta(seconds=forget_seconds)
        self._began_at, self._began = clock.now(), clock.monotonic()

    def forgotten_before(self, clock_skew_seconds: float | None) -> datetime:
        """Return the horizon in workspace time; the skew is that of our clock as it is now."""
        there = self._clock.now() + timedelta(seconds=clock_skew_seconds or 0.0)
        running = timedelta(seconds=self._clock.monotonic() - self._began)
        return min(there, self._began_at + running) + self._reach


def _newest_stamp(observation: Observation) -> float | None:
    if observation.source not in _OWN_STAMPS:
        return None
    stamps = (
        observation.created_at,
        observation.started_at,
        observation.finished_at,
        observation.updated_at,
    )
    return max((at.timestamp() for at in stamps if at is not None), default=None)
