"""Ends of flow runs that their job groups show without a read: when, and when they are read after.

A derived end needs all of this: every job group is complete; they are of exactly the recipes of
the last three runs of the flow that were read; all changes were listed since; the flow's last known
end is a success, so that nothing is resolved by it; no plan has started the flow run, because a
plan may be canceled after the last job group. In any other case the status is read; where earlier
runs had more job groups and all went well, the next one is waited for a while before.

Where the workspace refuses the status, a failed job group shows the failure of the whole once no
other one goes on and all changes were listed since.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from operator import itemgetter

from monitor.model.bounded_memory import BoundedMemory
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, RunState, Status, Trigger
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.reasons import hidden_failures

_REMEMBERED_RUNS = 3  # of each flow and trigger
_REMEMBERED_FLOWS = 10_000
_BAD_ENDS = (Status.FAILED, Status.CANCELED)  # the worse one first
_UNKNOWN = datetime.fromtimestamp(0, UTC)
_CONFIRMING_SHARE = 0.05  # of the request budget
_NEXT_PART_WITHIN = 3  # intervals of polls for changes


FlowAndTrigger = tuple[str, Trigger]
EarlierRun = tuple[datetime, frozenset[str]]


class UsualParts:
    """Remembers the recipes of the newest complete runs of each flow, by its trigger.

    Only runs that the workspace reported as complete, and all of whose job groups were, count.
    Scheduled and manual outputs of a flow are separate ones. Nothing is stored: after a restart the
    next runs of each flow are read again.
    """

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


class DerivedEnds:
    """Judges the job groups of flow runs, and spreads the reads that confirm derived ends."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._confirming_until = 0.0  # monotonic: when the last planned read is due
        self.usual = UsualParts()

    async def seconds_to_wait_for_parts(
        self, key: RunKey, parts: Sequence[RunState], over_at: datetime
    ) -> float | None:
        """Return how long more parts, or a list without any, are waited for before a read.

        Counted from ``over_at``, the workspace time at which no known job group was open any more.
        0: the job groups show the end. None: the status must be read.
        """
        settings = self._context.settings
        if self.usual.will_be_more(parts):
            return _NEXT_PART_WITHIN * settings.active_seconds
        if not await self._are_all(key, parts):
            return None
        return 0.0 if self._is_listed_since(over_at) else settings.flow_run_wait_cap_seconds

    async def _are_all(self, key: RunKey, parts: Sequence[RunState]) -> bool:
        """True where its job groups leave no doubt of how a flow run ended, but for later ones."""
        if not are_complete(parts) or not self.usual.are_all(parts):
            return False
        state = (await self._context.observer.known((key,))).get(key)
        # One that ended before we followed was never observed itself.
        shown = [*parts, *([] if state is None else [state])]
        pipeline = next((run.pipeline for run in reversed(shown) if run.pipeline), None)
        if pipeline is None or (state is not None and state.status.is_terminal):
            return False
        health = self._context.live_state.pipeline_health.get(
            (self._context.name, RunKind.FLOW_RUN, pipeline.id, None)
        )
        is_healthy = health is not None and health.last_status is Status.SUCCEEDED
        return is_healthy and not any(
            run.trigger is Trigger.PLAN or run.parents.plan_run is not None for run in shown
        )

    async def may_have_changed(
        self, end: RunState, moved: Collection[RunKey], groups: Sequence[Observation]
    ) -> bool:
        """True where an end may be another one than is known, as these of its job groups show.

        A derived one, and a reported one where the workspace has changed the end of one of them.
        """
        keys = [group.key for group in groups if group.key in moved]
        if end.has_derived_end or not end.status.is_terminal or not keys:
            return end.has_derived_end
        parts = await self._context.observer.known(keys)
        return any(part.corrections for part in parts.values())

    def failed_part(self, parts: Sequence[RunState], over_at: datetime) -> RunState | None:
        """Return a part by which the flow run has failed; None where they do not show that yet.

        One that was repeated with success shows nothing.
        """
        if summed_up(parts) is not Status.FAILED or not self._is_listed_since(over_at):
            return None
        return next(iter(hidden_failures(RunKind.FLOW_RUN, parts)), None)

    def _is_listed_since(self, at: datetime) -> bool:
        """True where all changes were listed, by a poll that began after ``at``: workspace time."""
        listed = self._context.live_state.complete.get((self._context.name, RunKind.JOB_GROUP))
        return listed is not None and listed > at

    def seconds_until_confirmation(self) -> float:
        """Plan one more read of a derived end after those before it; return when it is due."""
        per_minute = self._context.client.settings.requests_per_minute * _CONFIRMING_SHARE
        now = self._context.clock.monotonic()
        self._confirming_until = max(now, self._confirming_until) + 60 / per_minute
        return self._confirming_until - now
