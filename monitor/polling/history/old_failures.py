"""Reads why runs failed before we followed them: read last, the newest failures first.

Goes through all failures again and again, a page at a time. Job groups are read. A flow run or plan
run takes its reason from its parts; when all of them are linked and read, no more is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.errors import MonitorError
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, RunState, Status
from monitor.polling.details.detail_queue import final
from monitor.polling.details.job_records import JobRecords, ReadRecords
from monitor.polling.links.plan_children import PlanChildren
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Interval, Poll
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.polling.reasons import Reasons
from monitor.polling.run_observations import job_summary, known_end, with_jobs
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_PAGE = 500
_AT_ONCE = 20
_BUSY_SECONDS = 10.0  # between two polls while some of the newest are unread


class OldFailures:
    """Reads the job records of old failures, which the store knows and nothing else waits for."""

    def __init__(
        self,
        context: PollContext,
        *,
        records: JobRecords,
        plan_children: PlanChildren,
        reasons: Reasons,
    ) -> None:
        self._context = context
        self._records = records
        self._plan_children = plan_children
        self._reasons = reasons
        self._is_busy = True
        # Of each kind the last failure of the former page; None: the newest are next.
        self._before: dict[RunKind, RunKey | None] = {}
        self._tries: BoundedMemory[RunKey, int] = BoundedMemory(_PAGE)

    def declared(self) -> tuple[Poll, ...]:
        timing = Interval(
            seconds=self._seconds, first_after_seconds=_BUSY_SECONDS, is_expected=False
        )
        return (
            Poll(
                name="old_failures",
                priority=Priority.INVENTORY,
                timing=timing,
                run=self.poll,
            ),
        )

    def _seconds(self) -> float:
        return _BUSY_SECONDS if self._is_busy else self._context.settings.reconcile_seconds

    async def poll(self) -> bool:
        """Read the newest ones whose reason is not known; False where there are none.

        Raises:
            MonitorError: one cannot be read now; those before it are.
        """
        failed = await self._page(RunKind.JOB_GROUP)
        unread = [run for run in failed if run.historical and not run.detailed]
        is_newest = self._before.get(RunKind.JOB_GROUP) is None
        self._is_busy = self._is_history_unread() or (is_newest and bool(unread))
        has_read = await self._explain(unread[:_AT_ONCE])
        if not self._is_busy:
            if not unread:
                self._turn_page(RunKind.JOB_GROUP, failed)
            for kind in (RunKind.FLOW_RUN, RunKind.PLAN_RUN):
                await self._conclude(kind)
        return has_read

    async def _page(self, kind: RunKind) -> list[RunState]:
        return await self._context.bus.recent_runs(
            workspaces=[self._context.name],
            kind=kind,
            statuses=(Status.FAILED,),
            before=self._before.get(kind),
            limit=_PAGE,
        )

    def _turn_page(self, kind: RunKind, page: Sequence[RunState]) -> None:
        self._before[kind] = page[-1].key if len(page) == _PAGE else None

    async def _explain(self, unread: Sequence[RunState]) -> bool:
        """Read the job records of these; False where none were read."""
        if not self._context.can(Capability.READ_JOBS):
            if not self._context.is_unproven():
                await self._observe([final(known_end(run)) for run in unread])
            return False
        listed = await self._listed(unread)
        await self._observe(
            [_explained(run, listed[run.key.id]) for run in unread if run.key.id in listed]
        )
        for run in unread:
            if run.key.id not in listed:
                await self._observe([await self._read(run)])
        return bool(unread)

    async def _conclude(self, kind: RunKind) -> None:
        """Say of what has parts that no more will be known, where these are linked and read."""
        page, reads = await self._page(kind), 0
        for run in page:
            if run.detailed or self._reasons.may_learn_more(run):
                continue
            if kind is RunKind.PLAN_RUN:
                is_followed = self._plan_children.is_followed(run.key.id)
                if is_followed or reads == _AT_ONCE:
                    continue
                if not await self._plan_children.is_linked(run.key.id):
                    reads += 1
                    continue
            await self._reasons.conclude(run)
        self._turn_page(kind, page)

    def _is_history_unread(self) -> bool:
        history = self._context.live_state.workspaces[self._context.name].history
        return history is not None and not history.is_over

    async def _listed(self, runs: Sequence[RunState]) -> dict[str, ReadRecords]:
        """Return what few requests show of many."""
        if not self._records.can_list(len(runs)):
            return {}
        return await self._records.read(
            [run.key.id for run in runs],
            priority=Priority.INVENTORY,
            most_requests=max(1, len(runs) // 2),
        )

    async def _read(self, run: RunState) -> Observation:
        client = self._context.client
        try:
            rows = await client.runs.jobs(run.key.id, priority=Priority.INVENTORY)
        except MonitorError as error:
            tries = (self._tries.get(run.key) or 0) + is_about_the_object(error)
            self._tries.put(run.key, tries)
            if tries < self._context.settings.attempts:
                raise
            log.info("job records of an old failure given up", run=str(run.key), reason=str(error))
            return final(known_end(run))
        return _explained(run, ReadRecords(jobs=rows, read_at=client.workspace_now()))

    async def _observe(self, observations: Sequence[Observation]) -> None:
        if not observations:
            return
        await self._context.observer.observe(observations)
        known = await self._context.observer.known([run.key for run in observations])
        self._reasons.retry_ends_of(known.values())


def _explained(run: RunState, records: ReadRecords) -> Observation:
    summary = job_summary(records.jobs, read_at=records.read_at)
    return with_jobs(known_end(run), summary, is_final=True)
