"""Links from runs to plan runs, as full records have named them, and parts without one. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from monitor.model.bounded_memory import BoundedMemory
from monitor.model.observations import Observation
from monitor.model.runs import Parents, PipelineKind, RunKey, RunKind, RunState, Trigger

_REMEMBERED_LINKS = 10_000
_RAN_FOR_PLAN = "plan"  # why a job group ran, in the workspace's word


class PlanLinks:
    """Remembers links, also of runs that were not observed yet: then they are linked at once."""

    def __init__(self) -> None:
        self._plan_run_of: BoundedMemory[RunKey, str] = BoundedMemory(_REMEMBERED_LINKS)

    def put(self, child: RunKey, plan_run_id: str) -> None:
        self._plan_run_of.put(child, plan_run_id)

    def plan_run_of(self, child: RunKey, *, flow_run: str | None = None) -> str | None:
        """Return the plan run that has started the run, or the flow run around it."""
        linked = self._plan_run_of.get(child)
        if linked is None and flow_run is not None:
            linked = self._plan_run_of.get(_flow_run_key(child, flow_run))
        return linked

    def apply(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations, in their order, with their plan runs as far as known."""
        return [self._linked(observation) for observation in observations]

    def _linked(self, observation: Observation) -> Observation:
        parents = observation.parents
        plan_run = self.plan_run_of(observation.key, flow_run=parents.flow_run)
        if plan_run is None or parents.plan_run is not None:
            return observation
        if parents.flow_run is not None:
            # The flow run between a plan run and a job group belongs to the plan run as well.
            self.put(_flow_run_key(observation.key, parents.flow_run), plan_run)
        return linked_to(observation, plan_run)


def linked_to(observation: Observation, plan_run_id: str) -> Observation:
    """Return the observation as that of a run which the plan run has started."""
    return msgspec.structs.replace(
        observation,
        parents=Parents(flow_run=observation.parents.flow_run, plan_run=plan_run_id),
        trigger=Trigger.PLAN,
    )


def _flow_run_key(child: RunKey, flow_run: str) -> RunKey:
    return RunKey(workspace=child.workspace, kind=RunKind.FLOW_RUN, id=flow_run)


class UnlinkedPart(Struct, frozen=True, kw_only=True, gc=False):
    """An unlinked run. ``ended_at`` is monotonic; None while it is active."""

    flow_id: str | None
    is_of_a_plan: bool  # the workspace reports that a plan started it, if not which
    created_at: datetime | None
    ended_at: float | None = None

    def may_belong_to(self, flow_ids: frozenset[str] | None, since: datetime | None) -> bool:
        """True where a plan with these flows (None: not known), run since then, may have it."""
        if self.created_at is not None and since is not None and self.created_at < since:
            return False
        if flow_ids is None or self.flow_id is None:
            return self.is_of_a_plan
        return self.flow_id in flow_ids


def part_of(run: RunState | Observation, *, ended_at: float | None) -> UnlinkedPart | None:
    """Return the run as an unlinked part; None where its plan run is known."""
    if run.parents.plan_run is not None:
        return None
    flow = run.pipeline
    return UnlinkedPart(
        flow_id=flow.id if flow is not None and flow.kind is PipelineKind.FLOW else None,
        is_of_a_plan=run.trigger is Trigger.PLAN or run.ran_for == _RAN_FOR_PLAN,
        created_at=run.created_at,
        ended_at=ended_at,
    )
