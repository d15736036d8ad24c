"""Runs that may belong to a plan run and whose plan run is not known yet. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.model.observations import Observation
from monitor.model.runs import PipelineKind, RunState, Trigger

_RAN_FOR_PLAN = "plan"  # why a job group ran, in the workspace's word


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
