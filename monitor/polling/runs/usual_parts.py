"""Evidence that a flow run has all of its job groups: what earlier runs of its flow consisted of.

Only runs that the workspace reported as complete, and all of whose job groups were, count as
earlier runs. They are kept by flow and trigger, because scheduled and manual outputs of a flow are
separate ones. Nothing is stored: after a restart the next runs of each flow are read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from operator import itemgetter

from monitor.model.runs import RunState, Status, Trigger
from monitor.polling.poll_loop.bounded_memory import BoundedMemory

_REMEMBERED_RUNS = 3  # of each flow and trigger
_REMEMBERED_FLOWS = 10_000
_BAD_ENDS = (Status.FAILED, Status.CANCELED)  # the worse one first

_UNKNOWN = datetime.fromtimestamp(0, UTC)

FlowAndTrigger = tuple[str, Trigger]
EarlierRun = tuple[datetime, frozenset[str]]


class UsualParts:
    """Remembers the recipes of the newest complete runs of each flow."""

    def __init__(self) -> None:
        # When each began, and of what: reads of old runs and of derived ends come in any order.
        self._runs: BoundedMemory[FlowAndTrigger, tuple[EarlierRun, ...]] = BoundedMemory(
            _REMEMBERED_FLOWS
        )
        # What flow runs consisted of that the workspace still reported as unfinished.
        self._unfinished: BoundedMemory[tuple[FlowAndTrigger, frozenset[str]], bool] = (
            BoundedMemory(_REMEMBERED_FLOWS)
        )

    def learn(self, parts: Sequence[RunState]) -> None:
        """Remember the job groups of a flow run that the workspace reports as complete."""
        flow, recipes = _flow_of(parts), _recipes_of(parts)
        if flow is None or recipes is None or not are_complete(parts):
            return
        began_at = min((part.created_at for part in parts if part.created_at), default=_UNKNOWN)
        runs = (*(self._runs.get(flow) or ()), (began_at, recipes))
        self._runs.put(flow, tuple(sorted(runs, key=itemgetter(0)))[-_REMEMBERED_RUNS:])

    def learn_unfinished(self, parts: Sequence[RunState]) -> None:
        """Remember that the workspace reports a flow run with these job groups as unfinished."""
        flow, recipes = _flow_of(parts), _recipes_of(parts)
        if flow is not None and recipes is not None and are_complete(parts):
            self._unfinished.put((flow, recipes), value=True)

    def are_known(self, parts: Sequence[RunState]) -> bool:
        """True where the earlier runs that are remembered had exactly these job groups."""
        return self._runs_alike(parts) > 0

    def are_first(self, parts: Sequence[RunState]) -> bool:
        """True where no earlier run of their flow is remembered, and each recipe is there once."""
        flow = _flow_of(parts)
        return flow is not None and _recipes_of(parts) is not None and not self._runs.get(flow)

    def are_all(self, parts: Sequence[RunState]) -> bool:
        """True where enough earlier runs are remembered, and each had exactly these job groups."""
        return self._runs_alike(parts) == _REMEMBERED_RUNS

    def will_be_more(self, parts: Sequence[RunState]) -> bool:
        """True where all went well so far, and each earlier run that is remembered had more.

        Where none is, one that the workspace reported as unfinished with these shows the same.
        """
        flow, recipes = _flow_of(parts), _recipes_of(parts)
        if flow is None or recipes is None or not are_complete(parts):
            return False
        earlier = self._runs.get(flow)
        if not earlier:
            return self._unfinished.get((flow, recipes)) is not None
        return all(recipes < other for _, other in earlier)

    def _runs_alike(self, parts: Sequence[RunState]) -> int:
        """Return how many are remembered; 0 where any of them had other job groups than these."""
        flow, recipes = _flow_of(parts), _recipes_of(parts)
        earlier = () if flow is None else self._runs.get(flow) or ()
        return len(earlier) if all(other == recipes for _, other in earlier) else 0


def are_complete(parts: Sequence[RunState]) -> bool:
    """True where there are parts, and the workspace reports that all of them succeeded."""
    return bool(parts) and all(
        part.status is Status.SUCCEEDED and part.unconfirmed_end is None for part in parts
    )


def summed_up(parts: Sequence[RunState]) -> Status | None:
    """Return the end that the parts come to: one failure fails the whole, else one cancel does.

    None where there is no part, or one without an end that the workspace reports.
    """
    if not parts or any(part.unconfirmed_end is not None for part in parts):
        return None
    statuses = {part.status for part in parts}
    if not statuses <= set(_BAD_ENDS) | {Status.SUCCEEDED}:
        return None
    return next((status for status in _BAD_ENDS if status in statuses), Status.SUCCEEDED)


def _flow_of(parts: Sequence[RunState]) -> FlowAndTrigger | None:
    flows = {(part.pipeline.id, part.trigger) for part in parts if part.pipeline is not None}
    return next(iter(flows)) if len(flows) == 1 else None


def _recipes_of(parts: Sequence[RunState]) -> frozenset[str] | None:
    """Return the recipes; None where one is not known, or runs twice as after a retry."""
    recipes = frozenset(part.recipe.id for part in parts if part.recipe is not None)
    return recipes if len(recipes) == len(parts) else None
