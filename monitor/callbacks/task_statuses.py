"""The state of our webhook task at each flow, for commands, metrics and the log."""

from __future__ import annotations

from collections import Counter

import structlog
from msgspec import Struct

from monitor.callbacks.own_tasks import OwnTask
from monitor.model.live_state import NamedPipeline

log = structlog.get_logger()

STATES = ("registered", "pending", "over_limit", "failed", "removed")


class WebhookTaskStatus(Struct, frozen=True, kw_only=True):
    """The state of the task of one flow.

    ``state`` is registered, pending (not made yet), over_limit (the flow is full of others'
    tasks), failed (``reason`` says why; tried again) or removed (by the operator, until the next
    sync or start).
    """

    flow_id: str
    flow: str
    state: str
    task_id: str | None = None
    reason: str | None = None


class TaskStatuses:
    """The status of each flow, by flow id. Logs what changes."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._statuses: dict[str, WebhookTaskStatus] = {}

    def __contains__(self, flow_id: str) -> bool:
        return flow_id in self._statuses

    def flow_ids(self) -> set[str]:
        return set(self._statuses)

    def ordered(self) -> list[WebhookTaskStatus]:
        """Return all of them by the name of the flow."""
        return sorted(self._statuses.values(), key=lambda status: (status.flow, status.flow_id))

    def counts(self) -> dict[str, int]:
        """Return how many flows are in each state."""
        counts = Counter(status.state for status in self._statuses.values())
        return {state: counts[state] for state in STATES}

    def record(
        self, flow: NamedPipeline, task: OwnTask | None, state: str, *, reason: str | None = None
    ) -> None:
        """Set the status of a flow; a change is logged once."""
        before = self._statuses.get(flow.id)
        if state == "failed" and (before is None or before.reason != reason):
            log.warning(
                "webhook task failed", workspace=self._workspace, flow=flow.label, reason=reason
            )
        elif before is not None and before.state != state:
            log.info(
                "webhook task changed", workspace=self._workspace, flow=flow.label, state=state
            )
        self._statuses[flow.id] = WebhookTaskStatus(
            flow_id=flow.id,
            flow=flow.label,
            state=state,
            task_id=task.task_id if task is not None else None,
            reason=reason,
        )

    def drop(self, flow_id: str) -> bool:
        """Remove the status of a flow; False if there was none."""
        return self._statuses.pop(flow_id, None) is not None
