"""Links the runs that a plan run started to it, once the plan run has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import MonitorError, TryLaterError, UnauthorizedError, WorkspaceError
from monitor.model.observations import Observation
from monitor.model.runs import Parents, RunKey, RunKind, Source, Trigger
from monitor.model.waits import backoff_seconds
from monitor.polling.context import PollContext
from monitor.polling.poll_loop.failures import is_about_the_object
from monitor.polling.poll_loop.intervals import ChangeInterval
from monitor.polling.poll_loop.poll import Interval, Poll
from monitor.workspace.payloads import PlanChild
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_WAITING_AT_MOST = 1_000
_BASE_WAIT_SECONDS = 5.0
_GIVEN_UP_SECONDS = 86_400.0


@dataclass(slots=True, kw_only=True)
class _UnlinkedPlanRun:
    """An ended plan run whose children are still to be linked."""

    plan_id: str  # the plan or snapshot whose full record names the children
    ended_at: float  # monotonic: when we observed the end
    due_at: float  # monotonic
    failures: int = 0


class PlanChildren:
    """Reads the full record of each ended plan run's plan and links the runs that it names."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._unlinked: dict[str, _UnlinkedPlanRun] = {}

    def declared(self, change_interval: ChangeInterval) -> tuple[Poll, ...]:
        return (
            Poll(
                name="plan_children",
                priority=Priority.DETAILS,
                timing=Interval(seconds=change_interval.seconds),
                run=self.poll,
                needs=Capability.LIST_PLAN_RUNS,
            ),
        )

    def add(self, plan_run_id: str, *, plan_id: str) -> None:
        """Link this ended plan run's children at the next poll; above the bound it has none."""
        if len(self._unlinked) < _WAITING_AT_MOST:
            now = self._context.clock.monotonic()
            self._unlinked[plan_run_id] = _UnlinkedPlanRun(
                plan_id=plan_id, ended_at=now, due_at=now
            )

    async def poll(self) -> bool:
        """Link the children of every plan run that is due, as far as the API names them.

        A plan that cannot be read is retried with growing waits, for a day, and holds up no other.
        Return False where nothing was due.

        Raises:
            MonitorError: the workspace cannot be read now, or the last of those that failed; the
                children of all others are linked.
        """
        if not self._context.can(Capability.MAP_PLAN_SNAPSHOTS):
            self._unlinked.clear()
        now = self._context.clock.monotonic()
        due = [
            (plan_run_id, unlinked)
            for plan_run_id, unlinked in self._unlinked.items()
            if unlinked.due_at <= now
        ]
        failure: MonitorError | None = None
        for plan_run_id, unlinked in due:
            try:
                await self._link_children(plan_run_id, unlinked.plan_id)
            except (TryLaterError, UnauthorizedError) as error:
                if not is_about_the_object(error):
                    raise
                self._retry_later(plan_run_id, unlinked, error)
                failure = error
            else:
                self._unlinked.pop(plan_run_id, None)
        if failure is not None:
            raise failure
        return bool(due)

    def _retry_later(
        self, plan_run_id: str, unlinked: _UnlinkedPlanRun, error: MonitorError
    ) -> None:
        now = self._context.clock.monotonic()
        if now - unlinked.ended_at > _GIVEN_UP_SECONDS:
            log.warning(
                "linking a plan run's children given up", plan_run=plan_run_id, reason=str(error)
            )
            self._unlinked.pop(plan_run_id, None)
            return
        unlinked.failures += 1
        unlinked.due_at = now + backoff_seconds(
            unlinked.failures,
            base_seconds=_BASE_WAIT_SECONDS,
            cap_seconds=self._context.settings.reconcile_seconds,
        )

    async def _link_children(self, plan_run_id: str, plan_id: str) -> None:
        """Link what the plan's full record names.

        Raises:
            TryLaterError, UnauthorizedError: it cannot be read now.
        """
        if await self._has_children(plan_run_id):
            return
        try:
            full = await self._context.client.pipelines.plan_full(
                plan_id, priority=Priority.DETAILS
            )
        except (TryLaterError, UnauthorizedError):
            raise
        except WorkspaceError as error:
            log.info("plan run's children not readable", plan_run=plan_run_id, reason=str(error))
            return
        await self._link([child for child in full.children if child.plan_run_id == plan_run_id])

    async def _has_children(self, plan_run_id: str) -> bool:
        # All were linked in one commit, so an old plan run that is observed again costs no read.
        key = self._context.key(RunKind.PLAN_RUN, plan_run_id)
        return bool(await self._context.bus.children(key))

    async def _link(self, children: Sequence[PlanChild]) -> None:
        parents = {self._child_key(child): child.plan_run_id for child in children}
        known = await self._context.observer.known(list(parents))
        # The flow run between a plan run and a job group belongs to the plan run as well.
        for key, state in list(known.items()):
            if key.kind is RunKind.JOB_GROUP and (flow_run := state.parents.flow_run) is not None:
                parents.setdefault(self._context.key(RunKind.FLOW_RUN, flow_run), parents[key])
        known = await self._context.observer.known(list(parents))
        # Only runs that are known already: a child that is not followed must not appear this way.
        observations = [
            Observation(
                key=key,
                source=Source.POLL,
                observed_at=self._context.clock.now(),
                parents=Parents(plan_run=plan_run_id),
                trigger=Trigger.PLAN,
            )
            for key, plan_run_id in parents.items()
            if key in known
        ]
        await self._context.observer.observe(observations)

    def _child_key(self, child: PlanChild) -> RunKey:
        if child.job_group_id is not None:
            return self._context.key(RunKind.JOB_GROUP, child.job_group_id)
        return self._context.key(RunKind.FLOW_RUN, child.flow_run_id or "")
