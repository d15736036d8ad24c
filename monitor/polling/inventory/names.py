"""Names, folders and owners of flows and plans, by a slow refresh."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec
import structlog

from monitor.bus.contract import decode_entries
from monitor.catalogue.capabilities import Capability
from monitor.model.errors import MonitorError, NotAvailableError
from monitor.model.runs import PipelineKind
from monitor.polling.context import PollContext
from monitor.polling.poll_loop.failures import attempt_each
from monitor.polling.poll_loop.poll import Poll, every
from monitor.polling.runs.plans import Plans
from monitor.workspace.payloads import FlowRow, PlanRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_LISTED_BY = {
    PipelineKind.FLOW: Capability.LIST_FLOWS,
    PipelineKind.PLAN: Capability.LIST_PLANS,
}
INVENTORY = "inventory"  # topic of the state entries with the pipelines listed last

# Runs may be shown of what no list shows, and weeks may lie between them. So long after the newest
# one it counts as gone; what had been listed is gone with its second absence.
_UNLISTED_KEPT = timedelta(days=30)

_DECODER = msgspec.json.Decoder(frozenset[str])


class PipelineNames:
    """Keeps the pipelines and their present names as the workspace lists them.

    A pipeline that is missing twice in a row is forgotten, once it does not run. One that was
    never listed (another owner's, perhaps) stays for a month after its last followed run,
    and for as long as a schedule names it.
    """

    def __init__(self, context: PollContext, *, plans: Plans) -> None:
        self._context = context
        self._plans = plans
        self._listed: dict[PipelineKind, frozenset[str]] = {}
        self._missing: set[tuple[PipelineKind, str]] = set()
        self._folders: dict[str, str] = {}  # names by id, as read last

    def declared(self) -> tuple[Poll, ...]:
        settings = self._context.settings
        return (
            Poll(
                name="names",
                priority=Priority.NAMES,
                timing=every(settings.names_seconds),
                run=self.poll,
                needs=Capability.LIST_FLOWS,
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
        stored = await self._context.bus.state_entries(self._context.name, INVENTORY)
        known = {kind.value: stored[kind] for kind in PipelineKind if kind in stored}
        for kind, listed in decode_entries(known, _DECODER, topic=INVENTORY).items():
            self._listed[PipelineKind(kind)] = listed

    async def poll(self) -> None:
        """List flows and plans once.

        Raises:
            MonitorError: a list failed; the other one has been read.
        """
        await attempt_each(self._list_flows, self._list_plans)

    async def forget_idle(self) -> bool:
        """Forget pipelines that came and went between two lists, or that none ever shows.

        Always return False: no request is sent.
        """
        context = self._context
        unlisted = [
            kind
            for kind, capability in _LISTED_BY.items()
            if context.can(capability) and kind not in self._listed
        ]
        listed = {(kind, id_) for kind, ids in self._listed.items() for id_ in ids}
        for known in context.live_state.named_pipelines():
            # Before the first list of a kind, what it lacks is not known.
            if known.workspace == context.name and known.kind in unlisted:
                listed.add((known.kind, known.id))
        count = await context.observer.forget_idle(
            context.name, now=context.workspace_now(), listed=listed
        )
        if count:
            log.info("idle pipelines and recipes forgotten", count=count)
        return False

    async def _list_flows(self) -> None:
        if not self._context.can(Capability.LIST_FLOWS):
            return
        client = self._context.client
        flows = [
            row
            async for page in client.pipelines.flows(priority=Priority.NAMES)
            for row in page.rows
        ]
        await self._learn(PipelineKind.FLOW, {row.id: row.name for row in flows})
        failure = await self._read_folders(flows)
        for row in flows:
            self._place(PipelineKind.FLOW, row, folder=self._folder_of(row, failure))
        if failure is not None:
            raise failure

    async def _list_plans(self) -> None:
        if self._context.can(Capability.LIST_PLANS):
            plans = await self._plans.list_all()
            await self._learn(PipelineKind.PLAN, {row.id: row.name for row in plans.values()})
            for row in plans.values():
                self._place(PipelineKind.PLAN, row, folder=None)

    async def _read_folders(self, flows: Sequence[FlowRow]) -> MonitorError | None:
        """Read the names of folders where the list of flows shows only their ids.

        Return why they could not be read: flows are placed all the same, by the names of before.
        """
        if not any(row.folder_id is not None and row.folder_name is None for row in flows):
            return None
        try:
            self._folders = {
                row.id: row.name
                async for page in self._context.client.pipelines.folders(priority=Priority.NAMES)
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
        context.live_state.place_pipeline(
            context.name, kind, row.id, folder=folder, owner=row.owner
        )

    async def _learn(self, kind: PipelineKind, names: dict[str, str | None]) -> None:
        context = self._context
        for pipeline_id, name in names.items():
            context.live_state.name_pipeline(context.name, kind, pipeline_id, name)
        before = self._listed.get(kind, frozenset())
        absent = {
            (kind, pipeline_id)
            for pipeline_id in (before | self._never_listed(kind)) - names.keys()
        }
        running = context.live_state.running_pipelines(context.name)
        gone = absent & self._missing - running
        for _, pipeline_id in gone:
            await context.observer.forget_pipeline(context.name, kind, pipeline_id)
        # Once is no proof: a list may be a moment behind, or a right withdrawn for a while.
        self._missing = {pipeline for pipeline in self._missing if pipeline[0] is not kind} | (
            absent - gone
        )
        await self._keep(
            kind, frozenset(names) | before & {pipeline_id for _, pipeline_id in absent - gone}
        )

    def _never_listed(self, kind: PipelineKind) -> set[str]:
        """Return what nothing but old runs has named, perhaps long after it was deleted."""
        context = self._context
        status = context.live_state.workspaces[context.name]
        since = context.workspace_now() - _UNLISTED_KEPT
        if status.followed_since is not None:
            since = max(since, status.followed_since)  # what ended before that is history
        used = context.observer.busy(context.name, since=since)
        used |= {(of.kind, of.id) for schedule in status.schedules for of in schedule.starts}
        return {
            named_pipeline.id
            for named_pipeline in context.live_state.named_pipelines()
            if named_pipeline.workspace == context.name
            and named_pipeline.kind is kind
            and (kind, named_pipeline.id) not in used
        }

    async def _keep(self, kind: PipelineKind, listed: frozenset[str]) -> None:
        if listed == self._listed.get(kind):
            return
        state_entry = self._context.state_entry(
            INVENTORY, kind, msgspec.json.encode(sorted(listed))
        )
        await self._context.observer.observe((), state_entries=(state_entry,))
        self._listed[kind] = listed
