"""Finds what was removed: workspaces, pipelines and schedules that are listed no more."""

from __future__ import annotations

from monitor.alerting.rules.contract import PIPELINE_REMOVED
from monitor.model.alerts import BRIDGE
from monitor.model.runs import Pipeline, PipelineKind
from monitor.tracking.live_state import LiveStateView

WORKSPACE_REMOVED = "workspace removed"
_LISTS = {PipelineKind.FLOW: "list_flows", PipelineKind.PLAN: "list_plans"}
_NAMES_POLL = "names"  # it reads which pipelines exist


class RemovedSubjects:
    """Whether workspaces, pipelines and schedules were removed, at one moment."""

    def __init__(self, view: LiveStateView) -> None:
        self._view = view
        self._watched = {status.workspace: status for status in view.workspaces()}
        self._schedules: dict[str, frozenset[str]] = {}
        self._are_listed = {
            poll.workspace
            for poll in view.polls()
            if poll.poll == _NAMES_POLL and poll.last_success_at is not None
        }

    def reason(self, workspace: str, pipeline: Pipeline | None) -> str | None:
        """Return what was removed, as a reason; None where all may still exist."""
        status = self._watched.get(workspace)
        if status is None:
            return None if workspace == BRIDGE else WORKSPACE_REMOVED
        if pipeline is None or workspace not in self._are_listed:
            return None
        if _LISTS[pipeline.kind] not in status.capabilities:
            return None
        return None if self._view.knows(workspace, pipeline) else PIPELINE_REMOVED

    def is_deleted(self, workspace: str, schedule: str) -> bool:
        """True for the id of a schedule that the newest list does not name."""
        status = self._watched.get(workspace)
        if status is None or status.schedules_read_at is None:
            return False
        if workspace not in self._schedules:
            self._schedules[workspace] = frozenset(known.id for known in status.schedules)
        return schedule not in self._schedules[workspace]
