"""Reconciliation: compares the runs that we hold active with those that the workspace lists."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import NoSuchObjectError, RequestRejectedError, WorkspaceError
from monitor.model.live_state import ActiveRun
from monitor.model.runs import NATIVE_STATUSES, RunKey, RunKind, Source
from monitor.polling.job_groups.job_groups import JobGroups
from monitor.polling.lists.change_list import HandlePage, RunRow, Watermark
from monitor.polling.lists.expected_rows import ExpectedRows
from monitor.polling.lists.never_listed import NeverListed
from monitor.polling.lists.refetch_queue import RefetchQueue
from monitor.polling.lists.unshared_pipelines import UnsharedPipelines
from monitor.polling.plan_runs.plan_runs import PlanRuns
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, every
from monitor.polling.poll_loop.reads import attempt_each, is_about_the_object
from monitor.polling.reconciliation.by_id import ById
from monitor.polling.run_observations import PENDING_WORD, RUNNING_WORD
from monitor.workspace.payloads import Page
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_ACTIVE_WORDS = tuple(word for word, status in NATIVE_STATUSES.items() if not status.is_terminal)
# Every workspace knows these; any other may be refused.
_CERTAIN_WORDS = frozenset({RUNNING_WORD, PENDING_WORD})
_RELISTED_SECONDS = 86_400.0


class HandleActive(Protocol):
    """Handles the rows of a list and returns their ids; ``status``: only of what is active."""

    async def __call__(self, *, status: bool) -> set[str]: ...


class Reconciliation:
    """Lists what is active, and reads by id only what we hold active and the lists omit."""

    def __init__(
        self,
        context: PollContext,
        *,
        job_groups: JobGroups,
        plan_runs: PlanRuns,
        by_id: ById,
        written: Mapping[RunKind, ExpectedRows],
        watermarks: Mapping[RunKind, Watermark],
        refetch_queue: RefetchQueue,
        unshared: UnsharedPipelines,
    ) -> None:
        self._context = context
        self._unshared = unshared
        self._job_groups = job_groups
        self._plan_runs = plan_runs
        self._by_id = by_id
        self._written = written
        self._watermarks = watermarks
        # Until when each list of changes may be believed, by the workspace's clock and by ours.
        self._whole_until = {kind: watermark.at for kind, watermark in watermarks.items()}
        self._whole_from: dict[RunKind, float] = {}  # when that reading began, monotonic
        self._refetch_queue = refetch_queue
        self._never_listed = NeverListed(context, written)
        self._refused_words: set[str] = set()
        self._reconciled: set[RunKind] = set()  # in the poll that is under way
        self._read_at: dict[RunKey, float] = {}  # by their ids; monotonic

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
        context = self._context
        began, theirs = context.clock.monotonic(), context.workspace_now()
        held = context.all_active_keys()
        self._reconciled = set()
        await attempt_each(
            self._unshared.read_again,
            self._reconcile_job_groups,
            self._reconcile_plan_runs,
            self._reconcile_flow_runs,
            partial(self._by_id.denied.end, began=began, held=held),
            partial(self._judge_lists, began, theirs),
        )
        context.observer.active_limit.found_room(context.name, since=began)
        return self._context.can(Capability.LIST_CHANGES)

    async def relist(self) -> None:
        """List again what was created in the last day: it shows what appeared before the overlap.

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
        if self._context.can(Capability.LIST_CHANGES):
            await self._reconcile_listed(RunKind.JOB_GROUP, self._handle_job_groups)

    async def _reconcile_plan_runs(self) -> None:
        if self._context.can(Capability.LIST_PLAN_RUNS):
            await self._reconcile_listed(RunKind.PLAN_RUN, self._handle_plan_runs)

    async def _reconcile_listed(self, kind: RunKind, handle_active: HandleActive) -> None:
        context, written = self._context, self._written[kind]
        check = written.check
        began, active = context.clock.monotonic(), context.live_state.active
        before = began
        held = {key.id: active[key].run.native_status for key in context.active_keys(kind)}
        listed = await handle_active(status=True)
        check.showed(held.keys() & listed, asked=began)
        if written.is_doubted:
            # It is repeated soon, and what it lacks is read no more often than without a doubt.
            before -= context.settings.reconcile_seconds
        await self._read_omitted(kind, listed, before)
        began_at = context.our_time(began)
        lacking = [
            active_run.run.key.id
            for active_run in (active.get(context.key(kind, run_id)) for run_id in held)
            if active_run is not None
            and active_run.confirmed_at >= began_at
            and self._is_lacking(active_run, listed, held)
        ]
        explained = await check.explained(lacking)
        check.doubt(set(lacking) - explained, "the workspace shows it active by its id")
        self._never_listed.reconciled(kind, listed, held, asked_at=began_at)
        self._reconciled.add(kind)

    async def _judge_lists(self, began: float, theirs: datetime) -> None:
        """Date the lists that are whole; take back what was believed of the others since.

        Raises:
            DoubtedListError: one lacks what must be in it.
        """
        for kind, written in self._written.items():
            if written.is_doubted:
                # The list of changes was believed until now, and may have hidden ends.
                await self._watermarks[kind].move_back(self._whole_until[kind])
                self._retract(written.check.unwatched, to=self._whole_from.get(kind))
            elif kind in self._reconciled:
                written.check.found_whole()
                self._whole_until[kind], self._whole_from[kind] = theirs, began
        for written in self._written.values():
            written.require()

    def _retract(self, unwatched: Collection[str], *, to: float | None) -> None:
        at = None if to is None else self._context.our_time(to)
        for kind in (kind for kind in RunKind if kind in unwatched):
            self._context.live_state.retract(self._context.name, kind, to=at)

    def _is_lacking(
        self, active: ActiveRun, listed: Collection[str], held: Mapping[str, str | None]
    ) -> bool:
        """True where a list must have shown a run: it was read after the list, unchanged."""
        run_id, word = active.run.key.id, active.run.native_status
        written = self._written[active.run.key.kind]
        # What no list has ever shown may be of a kind that none shows, although others are shown.
        may_be_listed = written.was_listed(run_id) or held.keys().isdisjoint(listed)
        return (
            run_id not in listed
            and active.confirmed_by is Source.RECONCILIATION
            and word == held[run_id]
            and word in self._words(status=True)
            and may_be_listed
            and written.is_required(run_id, active.run.updated_at)
        )

    async def _reconcile_flow_runs(self) -> None:
        if self._context.can(Capability.FOLLOW_FLOW_RUNS):
            # They cannot be listed. Those that are followed well were confirmed since.
            age_seconds = self._context.settings.reconcile_seconds
            before = self._context.clock.monotonic() - age_seconds
            await self._read_omitted(RunKind.FLOW_RUN, set(), before)

    async def _handle_job_groups(self, *, status: bool) -> set[str]:
        pages = self._pages(self._context.client.runs.job_library, status=status)
        return await self._handle(pages, RunKind.JOB_GROUP, self._job_groups.handle_page)

    async def _handle_plan_runs(self, *, status: bool) -> set[str]:
        pages = self._pages(self._context.client.runs.plan_runs, status=status)
        return await self._handle(pages, RunKind.PLAN_RUN, self._plan_runs.handle_page)

    async def _handle(
        self,
        pages: AsyncIterator[Page[RunRow]],
        kind: RunKind,
        handle: HandlePage[RunRow],
    ) -> set[str]:
        written, asked = self._written[kind], self._context.clock.monotonic()
        listed: set[str] = set()
        async for page in pages:
            await self._refetch_queue.add_bad_rows(kind, page.bad_rows)
            written.check.showed(written.known(row.id for row in page.rows), asked=asked)
            await handle(page, Source.RECONCILIATION)
            written.saw(page.rows, is_listed=True)
            listed.update(row.id for row in page.rows)
        return listed

    async def _pages(
        self, read: Callable[..., AsyncIterator[Page[RunRow]]], *, status: bool
    ) -> AsyncIterator[Page[RunRow]]:
        for word in self._words(status=status):
            try:
                async for page in read(
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

    async def _read_omitted(self, kind: RunKind, listed: set[str], before: float) -> None:
        """Read by id what we hold active, no list has shown and nothing has confirmed since.

        ``before`` is monotonic.
        """
        failure: WorkspaceError | None = None
        refused: set[str] = set()
        active = self._context.live_state.active
        self._read_at = {key: at for key, at in self._read_at.items() if key in active}
        for key in self._context.active_keys(kind):
            if key.id in listed or not self._is_unconfirmed(key, before):
                continue
            self._read_at[key] = self._context.clock.monotonic()
            try:
                await self._by_id.read(key, Source.RECONCILIATION, Priority.RECONCILIATION)
            except NoSuchObjectError:
                self._by_id.denied.add(key)
            except WorkspaceError as error:
                if not is_about_the_object(error):
                    raise
                # Ends nothing: what we know of this run grows old, and the poll shows why.
                failure = error
                refused.add(key.id)
        if failure is not None and await self._unshared.explain(kind, refused) < refused:
            raise failure

    def _is_unconfirmed(self, key: RunKey, before: float) -> bool:
        active = self._context.live_state.active.get(key)
        if active is None:
            return False
        if active.confirmed_by is Source.DETAIL:
            # Job records may lack the end: they stand for no read of the run itself.
            return self._read_at.get(key, -math.inf) < before
        return active.confirmed_at < self._context.our_time(before)
