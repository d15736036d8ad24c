"""At most so many active runs of a workspace: memory grows with them, and a workspace may lie.

A run that has no room stays unknown, and nothing is lost for good: its end, or the next
reconciliation that finds room, makes it known with all events of its history.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

import structlog

from monitor.model.clock import Clock
from monitor.model.live_state import ActiveRun, TooManyRuns
from monitor.model.runs import RunKey
from monitor.tracking.live_state import LiveState

log = structlog.get_logger()

ACTIVE_RUNS = 10_000


class ActiveLimit:
    """Writes the active runs of live state, and counts them by workspace."""

    def __init__(self, live_state: LiveState, clock: Clock) -> None:
        self._live_state = live_state
        self._clock = clock
        self._most: dict[str, int] = {}
        self._number: Tally[str] = Tally()
        self._refused_at: dict[str, float] = {}  # monotonic, the last time

    def set(self, workspace: str, most: int) -> None:
        """Use another limit from now on; runs beyond it that are known stay known."""
        self._most[workspace] = most

    def keep(self, active: ActiveRun) -> None:
        """Show a run as it is now."""
        key = active.run.key
        if key not in self._live_state.active:
            self._number[key.workspace] += 1
        self._live_state.active[key] = active

    def drop(self, key: RunKey) -> None:
        """Show a run no longer as active, if it was."""
        if self._live_state.active.pop(key, None) is not None:
            self._number[key.workspace] -= 1

    def leave(self, workspace: str) -> None:
        """Forget a workspace that is no longer watched."""
        self._number.pop(workspace, None)
        self._refused_at.pop(workspace, None)

    def room(self, workspace: str) -> int:
        """Return how many more active runs may become known."""
        return self._most.get(workspace, ACTIVE_RUNS) - self._number[workspace]

    def refuse(self, workspace: str, refused: Iterable[RunKey]) -> None:
        """Show that runs found no room: new ones of their kinds are not seen until some end."""
        kinds: set[str] = {key.kind for key in refused}
        if not kinds:
            return
        self._refused_at[workspace] = self._clock.monotonic()
        status = self._live_state.workspaces.get(workspace)
        before = None if status is None else status.too_many_runs
        if before is not None and kinds <= set(before.unwatched):
            return
        most = self._most.get(workspace, ACTIVE_RUNS)
        reason = (
            f"{self._number[workspace]:,} runs are active, and active_runs_limit is {most:,}: "
            "further ones are not seen before some end"
        )
        since = self._clock.now() if before is None else before.since
        if before is not None:
            kinds.update(before.unwatched)
        found = TooManyRuns(since=since, reason=reason, unwatched=tuple(sorted(kinds)))
        self._live_state.update_workspace(workspace, too_many_runs=found)
        if before is None:
            log.warning("too many active runs", workspace=workspace, reason=reason)

    def found_room(self, workspace: str, *, since: float) -> None:
        """End it where no run was refused since then (monotonic), and all were listed."""
        status = self._live_state.workspaces.get(workspace)
        if status is None or status.too_many_runs is None:
            return
        if self._refused_at.get(workspace, since) < since:
            self._live_state.update_workspace(workspace, too_many_runs=None)
            log.info("active runs have room again", workspace=workspace)
