"""Flow runs that cannot be read, time after time: named, and no longer held against the others."""

from __future__ import annotations

import structlog

from monitor.model.due_queue import NEVER
from monitor.model.errors import MonitorError
from monitor.model.live_state import UnreadableRun
from monitor.model.runs import RunKind
from monitor.polling.context import PollContext
from monitor.polling.poll_loop.failed_reads import is_about_the_object
from monitor.polling.runs.tracked_flow_run import TrackedFlowRun

log = structlog.get_logger()

_NAMED_AT_MOST = 20


class UnreadableFlowRuns:
    """Counts failed reads, and shows in live state the flow runs whose reads all failed."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._answered_at = -NEVER  # monotonic: when any flow run was read last

    def failed(self, flow_run_id: str, tracked: TrackedFlowRun, error: MonitorError) -> bool:
        """Count a failed read; True from the last attempt on, by which it is named."""
        context = self._context
        if is_about_the_object(error) and not context.is_unreachable():
            tracked.failures += 1
            tracked.failing_since = min(tracked.failing_since, context.clock.monotonic())
        if tracked.failures < context.settings.attempts:
            return False
        if tracked.failures == context.settings.attempts:
            log.warning("flow run not readable", flow_run=flow_run_id, reason=str(error))
        run = UnreadableRun(
            kind=RunKind.FLOW_RUN, id=flow_run_id, tried_at=context.clock.now(), reason=str(error)
        )
        self._show((*self._without(flow_run_id), run)[-_NAMED_AT_MOST:])
        return True

    def is_alone(self, tracked: TrackedFlowRun) -> bool:
        """True where others were read since it cannot be: then it shows nothing about them."""
        return self._answered_at >= tracked.failing_since

    def answered(self, flow_run_id: str, tracked: TrackedFlowRun) -> None:
        """The flow run was read."""
        self._answered_at = self._context.clock.monotonic()
        tracked.failures, tracked.failing_since = 0, NEVER
        self.forget(flow_run_id)

    def forget(self, flow_run_id: str) -> None:
        """Name it no more: it was read, has ended, or is gone."""
        if any(run.id == flow_run_id for run in self._named()):
            self._show(self._without(flow_run_id))

    def _named(self) -> tuple[UnreadableRun, ...]:
        return self._context.live_state.workspaces[self._context.name].unreadable

    def _without(self, flow_run_id: str) -> tuple[UnreadableRun, ...]:
        return tuple(run for run in self._named() if run.id != flow_run_id)

    def _show(self, runs: tuple[UnreadableRun, ...]) -> None:
        self._context.live_state.update_workspace(self._context.name, unreadable=runs)
