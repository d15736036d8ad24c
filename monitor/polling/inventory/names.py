"""Names, folders and owners of flows and plans, by a slow refresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import DoubtedListError, MonitorError, NotAvailableError
from monitor.model.runs import PipelineKind
from monitor.model.slices import in_slices
from monitor.polling.inventory.owners import PipelineOwners
from monitor.polling.links.plans import Plans
from monitor.polling.lists.change_list import Watermark
from monitor.polling.lists.list_check import ListChecks
from monitor.polling.lists.listed_objects import NAMED_AT_ONCE, ListedObjects
from monitor.polling.lists.token_owner import TokenOwner
from monitor.polling.lists.unshared_pipelines import HIDDEN_SECONDS
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, every
from monitor.polling.poll_loop.reads import attempt_each
from monitor.workspace.payloads import BadRow, FlowRow, PlanRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_NAMES = "names"  # name of the poll
_LISTED_BY = {
    PipelineKind.FLOW: Capability.LIST_FLOWS,
    PipelineKind.PLAN: Capability.LIST_PLANS,
}

# Runs may be shown of what no list shows, and weeks may lie between them. So long after the newest
# one it counts as gone, with its second absence: a list may lag a moment.
_UNLISTED_KEPT = timedelta(days=30)


class PipelineNames:
    """Keeps the pipelines and their present names as the workspace lists them.

    A listed pipeline is forgotten when list and id agree that it is gone, once it does not run, and
    any that is unshared after a day. A run that is seen for the first time afterwards keeps it only
    if it started after that. One that was never listed (another owner's, perhaps) stays for a month
    after its last followed run, and for as long as a schedule names it.
    """

    def __init__(
        self,
        context: PollContext,
        *,
        plans: Plans,
        checks: ListChecks,
        owner: TokenOwner,
        watermarks: Mapping[PipelineKind, Watermark],
    ) -> None:
        """``watermarks`` are those of their runs."""
        self._context = context
        self._watermarks = watermarks
        self._plans = plans
        self._owner = owner
        self.unshared = checks.unshared
        self._owners = PipelineOwners(context, token_owner=owner)
        pipelines = context.client.pipelines
        self._listed = {
            PipelineKind.FLOW: ListedObjects(
                context,
                PipelineKind.FLOW,
                check=checks.flows,
                owner=owner,
                read=partial(pipelines.flow, priority=Priority.NAMES),
                hidden_seconds=HIDDEN_SECONDS,
            ),
            PipelineKind.PLAN: ListedObjects(
                context,
                PipelineKind.PLAN,
                check=checks.plans,
                owner=owner,
                read=partial(pipelines.plan_full, priority=Priority.NAMES),
                hidden_seconds=HIDDEN_SECONDS,
            ),
        }
        self._missing: set[tuple[PipelineKind, str]] = set()
        self._folders: dict[str, str] = {}  # names by id, as read last

    def declared(self) -> tuple[Poll, ...]:
        settings = self._context.settings
        return (
            Poll(
                name=_NAMES,
                priority=Priority.NAMES,
                timing=every(settings.names_seconds),
                run=self.poll,
                needs=Capability.LIST_FLOWS,
                forget=self._forget_doubts,
            ),
            Poll(
                name="idle_pipelines",
                priority=Priority.NAMES,
                timing=every(settings.relist_seconds, first_after_seconds=settings.relist_seconds),
                run=self.forget_idle,
            ),
        )

    async def load(self) -> None:
        """Read back which pipelines were listed last."""
        lists_apart = timedelta(seconds=self._context.settings.names_seconds)
        for kind, listed in self._listed.items():
            await listed.load()
            watched_until = self._watermarks[kind].at
            if listed.ids and watched_until is not None:
                at = watched_until - lists_apart
                self.unshared.listed(kind, sorted(listed.ids), at=at, missed=())

    async def poll(self) -> None:
        """List flows and plans once.

        Raises:
            MonitorError: a list failed, or is doubted; the other one has been read.
        """
        await attempt_each(self._owner.known, self._list_flows, self._list_plans)

    async def forget_idle(self) -> bool:
        """Forget pipelines that came and went between two lists, or that none ever shows.

        Always return False: no request is sent.
        """
        context = self._context
        unlisted = [
            kind
            for kind, capability in _LISTED_BY.items()
            if context.can(capability) and self._listed[kind].ids is None
        ]
        listed = {
            (kind, id_) for kind, known in self._listed.items() for id_ in known.ids or frozenset()
        }
        for known in context.live_state.names.all():
            # Before the first list of a kind, what it lacks is not known.
            if known.workspace == context.name and known.kind in unlisted:
                listed.add((known.kind, known.id))
        count = await context.observer.forget_idle(
            context.name, now=context.workspace_now(), listed=listed
        )
        if count:
            log.info("idle pipelines and recipes forgotten", count=count)
        return False

    def _priority(self) -> Priority:
        return self._context.first_at_once(_NAMES, Priority.NAMES)

    async def _list_flows(self) -> None:
        if not self._context.can(Capability.LIST_FLOWS):
            return
        client, priority = self._context.client, self._priority()
        began, asked = self._context.workspace_now(), self._context.clock.monotonic()
        pages = [page async for page in client.pipelines.flows(priority=priority)]
        flows = [row for page in pages for row in page.rows]
        await self._name(PipelineKind.FLOW, flows)
        failure = await self._read_folders(flows)
        owners = (row.owner_id for row in flows if row.owner is None)
        await self._owners.read(owners, priority=self._priority())
        async for row in in_slices(flows):  # 10,000 where a workspace is large
            self._place(PipelineKind.FLOW, row, folder=self._folder_of(row, failure))
        bad_rows = [bad for page in pages for bad in page.bad_rows]
        await self._compare(PipelineKind.FLOW, flows, bad_rows, began=began, asked=asked)
        if failure is not None:
            raise failure

    async def _list_plans(self) -> None:
        if self._context.can(Capability.LIST_PLANS):
            began, asked = self._context.workspace_now(), self._context.clock.monotonic()
            plans = await self._plans.list_all(priority=self._priority())
            await self._name(PipelineKind.PLAN, plans.rows)
            owners = (row.owner_id for row in plans.rows if row.owner is None)
            await self._owners.read(owners, priority=self._priority())
            async for row in in_slices(plans.rows):  # as flows
                self._place(PipelineKind.PLAN, row, folder=None)
            await self._compare(
                PipelineKind.PLAN, plans.rows, plans.bad_rows, began=began, asked=asked
            )

    async def _read_folders(self, flows: Sequence[FlowRow]) -> MonitorError | None:
        """Read the names of folders where the list of flows shows only their ids.

        Return why they could not be read: flows are placed all the same, by the names of before.
        """
        if not any(row.folder_id is not None and row.folder_name is None for row in flows):
            return None
        try:
            self._folders = {
                row.id: row.name
                async for page in self._context.client.pipelines.folders(priority=self._priority())
                for row in page.rows
                if row.name is not None
            }
        except NotAvailableError:
            self._folders = {}
        except MonitorError as error:
            return error
        return None

    def _folder_of(self, row: FlowRow, failure: MonitorError | None) -> str | None:
        if row.folder_name is not None or row.folder_id is None:
            return row.folder_name
        # An id stands in for a name only where the workspace has none to show.
        return self._folders.get(row.folder_id, row.folder_id if failure is None else None)

    def _place(self, kind: PipelineKind, row: FlowRow | PlanRow, *, folder: str | None) -> None:
        context = self._context
        identity = (context.name, kind, row.id)
        owner = row.owner or self._owners.name_of(row.owner_id)
        context.live_state.names.place(identity, folder=folder, owner=owner)

    async def _name(self, kind: PipelineKind, rows: Sequence[FlowRow | PlanRow]) -> None:
        async for row in in_slices(rows, size=NAMED_AT_ONCE):  # 10,000 pipelines
            self._context.live_state.name_pipeline(self._context.name, kind, row.id, row.name)

    async def _compare(
        self,
        kind: PipelineKind,
        rows: Sequence[FlowRow] | Sequence[PlanRow],
        bad_rows: Sequence[BadRow],
        *,
        began: datetime,
        asked: float,
    ) -> None:
        """Forget what is no longer there.

        ``began`` is when the list was requested by the workspace's clock, ``asked`` by ours.

        Raises:
            DoubtedListError: the list lacks what must be in it; that is not forgotten.
        """
        context, listed = self._context, self._listed[kind]
        running = context.live_state.running_pipelines(context.name)

        async def remove(pipeline_id: str, is_gone: bool) -> bool:  # noqa: FBT001 - a callback's signature
            if (kind, pipeline_id) in running:
                return False
            if kind is PipelineKind.PLAN:
                self._plans.forget(pipeline_id)
            if is_gone or pipeline_id in self.unshared.ids(kind):
                await self._forget(kind, pipeline_id)
            return True

        names = {row.id: row.name for row in rows if row.name is not None}
        shown = {row.id for row in rows}
        shows_known = not shown.isdisjoint(listed.ids or ())
        self.unshared.listed(kind, shown, at=began, missed=(listed.ids or frozenset()) - shown)
        self.unshared.shown(kind, shown)
        hid_runs = listed.check.hides_runs
        try:
            await listed.compare(shown, bad_rows, asked=asked, remove=remove, names=names)
        except DoubtedListError:
            await self._find_unshared(kind, shows_known=shows_known)
            if listed.check.hides_runs and not hid_runs:
                # What was written since is read again once they are shown.
                shown_until = self.unshared.shown_until(kind, listed.check.hidden)
                await self._watermarks[kind].move_back(shown_until)
            raise
        await self._find_unshared(kind, shows_known=shows_known)
        absent = {
            (kind, pipeline_id)
            for pipeline_id in await self._never_listed(kind) - (listed.ids or frozenset())
        }
        gone = absent & self._missing - running
        for _, pipeline_id in gone:
            await self._forget(kind, pipeline_id)
        self._missing = {pipeline for pipeline in self._missing if pipeline[0] is not kind} | (
            absent - gone
        )

    async def _find_unshared(self, kind: PipelineKind, *, shows_known: bool) -> None:
        check = self._listed[kind].check
        await self.unshared.refused(kind, check.hidden)
        if shows_known:  # else the list itself may be another one
            check.excuse(self.unshared.ids(kind))

    async def _forget(self, kind: PipelineKind, pipeline_id: str) -> None:
        await self._context.observer.forget_pipeline(self._context.name, kind, pipeline_id)
        self.unshared.forget(kind, pipeline_id)

    def _forget_doubts(self) -> None:
        for listed in self._listed.values():
            listed.check.forget()

    async def _never_listed(self, kind: PipelineKind) -> set[str]:
        """Return what nothing but old runs has named, perhaps long after it was deleted."""
        context = self._context
        status = context.live_state.workspaces[context.name]
        since = context.workspace_now() - _UNLISTED_KEPT
        if status.followed_since is not None:
            since = max(since, status.followed_since)  # what ended before that is history
        gone = {(kind, id_): at for id_, at in self._listed[kind].gone.items()}
        used = {
            (pipeline.kind, pipeline.id)
            for schedule in status.schedules
            for pipeline in schedule.starts
        }
        # What was listed and then denied stays gone, unless it has started since.
        health = context.observer.pipeline_health
        used = used.difference(gone) | health.busy(context.name, since, gone)
        used -= {(kind, id_) for id_ in self.unshared.overdue(kind)}
        return {  # of 10,000 pipelines and more
            named_pipeline.id
            async for named_pipeline in in_slices(context.live_state.names.all(), size=1_000)
            if named_pipeline.workspace == context.name
            and named_pipeline.kind is kind
            and (kind, named_pipeline.id) not in used
        }
