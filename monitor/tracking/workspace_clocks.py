"""How far the clocks of workspaces are ahead of ours: by their answers, else by their stamps.

Answers without ``Date`` show no time. Then the newest stamps do: they were written before they were
read, so the workspace's clock shows no less. An end of which no time is reported is ordered by
that: after all that is known, and before all that follows. One run whose stamp is ahead of those of
all others may be wrong, so the second newest counts; each is forgotten after an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from monitor.model.clock import Clock
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, Source
from monitor.tracking.live_state import LiveState

ClockSkew = Callable[[], float | None]


class _Stamp(NamedTuple):
    """The newest one of a run, less our monotonic time of then, which is ``read_at``."""

    least: float
    read_at: float
    run: RunKey


# Stamps further away are of the past, or cannot be true. After so long no stamp is needed either:
# what is not dated sorts behind it by our clock, too.
_MOST_SECONDS = 3_600.0
_OWN_STAMPS = frozenset({Source.POLL, Source.RECONCILIATION, Source.DETAIL, Source.TRACK})


class WorkspaceClocks:
    """Asked at each observation, because our clock may have been set since the last."""

    def __init__(self, live_state: LiveState, clock: Clock) -> None:
        self._live_state = live_state
        self._clock = clock
        self._measured: dict[str, ClockSkew] = {}
        self._newest: dict[str, list[_Stamp]] = {}  # of two runs, the newest first

    def measure(self, workspace: str, skew: ClockSkew) -> None:
        """Let ``skew`` answer for a workspace; None: its answers show no time."""
        self._measured[workspace] = skew

    def forget(self, workspace: str) -> None:
        self._measured.pop(workspace, None)
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

    def skew_seconds(self, workspace: str) -> float | None:
        """Return how far its clock is ahead of ours now; None while nothing shows it."""
        measured = self._measured.get(workspace)
        if measured is None:
            status = self._live_state.workspaces.get(workspace)
            skew = status.clock_skew_seconds if status is not None else None
        else:
            skew = measured()
        if skew is None and (newest := self._newest.get(workspace)):
            skew = newest[-1].least + self._clock.monotonic() - self._clock.now().timestamp()
        return skew


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
