"""The runs that contain a run, up to its root run, as far as they are known."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct

from monitor.alerting.alerting_store import Store
from monitor.model.runs import Parents, Pipeline, RunKey, RunKind, RunState, Trigger
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveStateView

NEEDED_CAPABILITIES = {
    RunKind.FLOW_RUN: "follow_flow_runs",
    RunKind.PLAN_RUN: "list_plan_runs",
}
# A run can be a part of runs of a larger size.
SIZES = {RunKind.JOB_GROUP: 0, RunKind.FLOW_RUN: 1, RunKind.PLAN_RUN: 2}
_PARENTS_CACHED = 10_000
_LEVELS = 2
_RUNS_AT_ONCE = 200  # of all active ones, up to 40,000 at 10 us
_NO_PARENTS = Parents()
_RAN_FOR_PLAN = "plan"  # why a job group ran, in the workspace's word


def has_parents(run: RunState) -> bool:
    return run.parents != _NO_PARENTS


class RootRun(Struct, frozen=True, kw_only=True):
    """A run of a lineage. ``run`` is its own state where that is known."""

    key: RunKey
    pipeline: Pipeline | None
    run: RunState | None


class Lineage:
    """Finds the runs that contain a run, in the live state and in the store."""

    def __init__(self, *, bus: Store, view: LiveStateView) -> None:
        self._bus = bus
        self._view = view
        self._parents: OrderedDict[RunKey, RunState] = OrderedDict()

    async def prepare(self, runs: Iterable[RunState]) -> None:
        """Read the parents of these runs, with one query for each level.

        A cancelled call has cached some of them, which does no harm.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        children = [run async for run in in_slices(runs, size=_RUNS_AT_ONCE) if has_parents(run)]
        for _ in range(_LEVELS):
            parents: set[RunKey] = set()
            async for run in in_slices(children, size=_RUNS_AT_ONCE):
                parents.update(self._parent_keys(run))
            if not parents:
                return
            stored = {key for key in parents if self._view.active_run(key) is None}
            if stored:
                for key, run in (await self._bus.runs(stored)).items():
                    self._cache(key, run)
            found = [self._state(key) async for key in in_slices(parents, size=_RUNS_AT_ONCE)]
            children = [run for run in found if run is not None]

    def root_run(self, run: RunState) -> RootRun:
        """Return the run that contains all others, perhaps itself."""
        return self.line(run)[-1]

    def line(self, run: RunState) -> tuple[RootRun, ...]:
        """Return the run and the runs that contain it, the root run last.

        A parent that is known by its id alone is left out: an alert must say what failed. So is
        one that was never observed and cannot be followed: its end would not be seen.
        """
        own = RootRun(key=run.key, pipeline=run.pipeline, run=run)
        if not has_parents(run):
            return (own,)
        keys = dict.fromkeys(self._parent_keys(run))
        for key in list(keys):
            state = self._state(key)
            if key.kind is RunKind.FLOW_RUN and state is not None:
                keys |= dict.fromkeys(self._parent_keys(state))
        line = [own]
        for key in sorted(keys, key=lambda key: SIZES[key.kind]):
            state = self._state(key)
            if state is None and not self._may_follow(key):
                continue
            pipeline = state.pipeline if state is not None else None
            if pipeline is None and key.kind is RunKind.FLOW_RUN:
                pipeline = run.pipeline  # a job group runs in a flow run of its own flow
            if pipeline is not None:
                line.append(RootRun(key=key, pipeline=pipeline, run=state))
        return tuple(line)

    def _parent_keys(self, run: RunState) -> list[RunKey]:
        """Return the reported parents."""
        parents = run.parents
        return [
            RunKey(run.key.workspace, kind, run_id)
            for kind, run_id in (
                (RunKind.FLOW_RUN, parents.flow_run),
                (RunKind.PLAN_RUN, parents.plan_run),
            )
            if run_id is not None
        ]

    def _may_follow(self, key: RunKey) -> bool:
        """True where runs of that kind can be followed, or that was not probed yet."""
        status = self._view.workspace(key.workspace)
        if status is None:
            return False
        return status.edition is None or NEEDED_CAPABILITIES[key.kind] in status.capabilities

    def _state(self, key: RunKey) -> RunState | None:
        active = self._view.active_run(key)
        return active.run if active is not None else self._parents.get(key)

    def _cache(self, key: RunKey, run: RunState) -> None:
        self._parents[key] = run
        self._parents.move_to_end(key)
        if len(self._parents) > _PARENTS_CACHED:
            self._parents.popitem(last=False)


def are_likely_related(first: RunState, second: RunState) -> bool:
    """True where the smaller run has no known parent, and began while the larger run ran."""
    smaller, larger = sorted((first, second), key=lambda run: SIZES[run.key.kind])
    is_plan = larger.key.kind is RunKind.PLAN_RUN
    if is_plan and not is_of_a_plan(smaller) and smaller.trigger is not Trigger.UNKNOWN:
        return False
    if (smaller.parents.plan_run if is_plan else smaller.parents.flow_run) is not None:
        return False
    if smaller.created_at is None or larger.created_at is None:
        return False
    ended_at = larger.finished_at or smaller.created_at
    return larger.created_at <= smaller.created_at <= ended_at


def is_of_a_plan(run: RunState) -> bool:
    """True where the workspace reports that a plan started it, if not which."""
    return run.trigger is Trigger.PLAN or run.ran_for == _RAN_FOR_PLAN
