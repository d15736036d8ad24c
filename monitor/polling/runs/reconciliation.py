"""Reconciliation: compares the runs that we hold active with those that the workspace lists."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import NoSuchObjectError, RequestRejectedError, WorkspaceError
from monitor.model.runs import NATIVE_STATUSES, RunKey, RunKind, Source
from monitor.polling.context import PollContext
from monitor.polling.poll_loop.failures import attempt_each, is_about_the_object
from monitor.polling.poll_loop.poll import Poll, every
from monitor.polling.runs.by_id import ById
from monitor.polling.runs.changes import HandleRows, RunRow
from monitor.polling.runs.job_groups import JobGroups
from monitor.polling.runs.plan_runs import PlanRuns
from monitor.polling.runs.refetch_queue import RefetchQueue
from monitor.polling.runs.run_observations import PENDING_WORD, RUNNING_WORD
from monitor.workspace.payloads import JobGroupRow, Page, PlanRunRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_ACTIVE_WORDS = tuple(word for word, status in NATIVE_STATUSES.items() if not status.is_terminal)
# Every workspace knows these; any other may be refused.
_CERTAIN_WORDS = frozenset({RUNNING_WORD, PENDING_WORD})
_RELISTED_SECONDS = 86_400.0


class Reconciliation:
    """Lists what is active, and reads by id only what we hold active and the lists omit."""

    def __init__(
        self,
        context: PollContext,
        *,
        job_groups: JobGroups,
        plan_runs: PlanRuns,
        by_id: ById,
        refetch_queue: RefetchQueue,
    ) -> None:
        self._context = context
        self._job_groups = job_groups
        self._plan_runs = plan_runs
        self._by_id = by_id
        self._refetch_queue = refetch_queue
        self._refused_words: set[str] = set()

    def declared(self) -> tuple[Poll, ...]:
        settings = self._context.settings
        return (
            Poll(
                name="reconciliation",
                priority=Priority.RECONCILIATION,
                timing=every(settings.reconcile_seconds),
                run=self.poll,
                needs=Capability.FOLLOW_BY_ID,
            ),
            Poll(
                name="relist",
                priority=Priority.RECONCILIATION,
                # The first change poll has just shown the last day.
                timing=every(
                    settings.relist_seconds, first_after_seconds=settings.reconcile_seconds
                ),
                run=self.relist,
                needs=Capability.LIST_CHANGES,
            ),
        )

    async def poll(self) -> bool:
        """Reconcile every kind of run once; False where nothing can be listed here.

        Raises:
            MonitorError: a list or a read failed; nothing was concluded from what it did not show.
        """
        await attempt_each(
            self._reconcile_job_groups, self._reconcile_plan_runs, self._reconcile_flow_runs
        )
        return self._context.can(Capability.LIST_CHANGES)

    async def relist(self) -> None:
        """List again what was created in the last day: it shows what appeared behind the overlap.

        Raises:
            MonitorError: a list failed; the other one has been handled.
        """

        async def job_groups() -> None:
            if self._context.can(Capability.LIST_CHANGES):
                await self._handle_job_groups(status=False)

        async def plan_runs() -> None:
            if self._context.can(Capability.LIST_PLAN_RUNS):
                await self._handle_plan_runs(status=False)

        await attempt_each(job_groups, plan_runs)

    async def _reconcile_job_groups(self) -> None:
        began_at = self._context.clock.now()
        if self._context.can(Capability.LIST_CHANGES):
            listed = await self._handle_job_groups(status=True)
            await self._read_omitted(RunKind.JOB_GROUP, listed, began_at)

    async def _reconcile_plan_runs(self) -> None:
        began_at = self._context.clock.now()
        if self._context.can(Capability.LIST_PLAN_RUNS):
            listed = await self._handle_plan_runs(status=True)
            await self._read_omitted(RunKind.PLAN_RUN, listed, began_at)

    async def _reconcile_flow_runs(self) -> None:
        if self._context.can(Capability.FOLLOW_FLOW_RUNS):
            # They cannot be listed. Those that are followed well were confirmed since.
            age = timedelta(seconds=self._context.settings.reconcile_seconds)
            await self._read_omitted(RunKind.FLOW_RUN, set(), self._context.clock.now() - age)

    async def _handle_job_groups(self, *, status: bool) -> set[str]:
        pages = self._job_group_pages(status=status)
        return await self._handle(pages, RunKind.JOB_GROUP, self._job_groups.handle)

    async def _handle_plan_runs(self, *, status: bool) -> set[str]:
        pages = self._plan_run_pages(status=status)
        return await self._handle(pages, RunKind.PLAN_RUN, self._plan_runs.handle)

    async def _handle(
        self,
        pages: AsyncIterator[Page[RunRow]],
        kind: RunKind,
        handle: HandleRows[RunRow],
    ) -> set[str]:
        listed: set[str] = set()
        async for page in pages:
            await self._refetch_queue.add_bad_rows(kind, page.bad_rows)
            await handle(page.rows, Source.RECONCILIATION, page.began_at)
            listed.update(row.id for row in page.rows)
        return listed

    async def _job_group_pages(self, *, status: bool) -> AsyncIterator[Page[JobGroupRow]]:
        client = self._context.client
        for word in self._words(status=status):
            try:
                async for page in client.runs.job_library(
                    status=word,
                    created_since=None if word else self._yesterday(),
                    priority=Priority.RECONCILIATION,
                ):
                    yield page
            except RequestRejectedError as error:
                self._refuse(word, error)

    async def _plan_run_pages(self, *, status: bool) -> AsyncIterator[Page[PlanRunRow]]:
        client = self._context.client
        for word in self._words(status=status):
            try:
                async for page in client.runs.plan_runs(
                    status=word,
                    created_since=None if word else self._yesterday(),
                    priority=Priority.RECONCILIATION,
                ):
                    yield page
            except RequestRejectedError as error:
                self._refuse(word, error)

    def _words(self, *, status: bool) -> tuple[str | None, ...]:
        if not status:
            return (None,)
        return tuple(word for word in _ACTIVE_WORDS if word not in self._refused_words)

    def _refuse(self, word: str | None, error: RequestRejectedError) -> None:
        if word is None or word in _CERTAIN_WORDS:
            raise error
        log.info("status unknown to the workspace", status=word, reason=str(error))
        self._refused_words.add(word)

    def _yesterday(self) -> datetime:
        return self._context.workspace_now() - timedelta(seconds=_RELISTED_SECONDS)

    async def _read_omitted(self, kind: RunKind, listed: set[str], before: datetime) -> None:
        """Read by id what we hold active, no list has shown and nothing has confirmed since."""
        failure: WorkspaceError | None = None
        for key in self._context.active_keys(kind):
            if key.id in listed or not self._is_unconfirmed(key, before):
                continue
            try:
                await self._by_id.read(key, Source.RECONCILIATION, Priority.RECONCILIATION)
            except NoSuchObjectError:
                await self._by_id.denied(key)
            except WorkspaceError as error:
                if not is_about_the_object(error):
                    raise
                # Ends nothing: what we know of this run grows old, and the poll shows why.
                failure = error
        if failure is not None:
            raise failure

    def _is_unconfirmed(self, key: RunKey, before: datetime) -> bool:
        active = self._context.live_state.active.get(key)
        return active is not None and active.confirmed_at < before
