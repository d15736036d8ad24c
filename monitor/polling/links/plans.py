"""Finds the plan of a plan run. Runs name a snapshot of the plan, not the plan itself."""

from __future__ import annotations

from datetime import datetime

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.contract import decode_entries
from monitor.catalogue.capabilities import Capability
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.errors import TryLaterError, UnauthorizedError, WorkspaceError
from monitor.model.runs import Pipeline, PipelineKind
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.workspace.payloads import Page, PlanFull, PlanRow, PlanRunRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

SNAPSHOT = "snapshot"  # topic of the state entries that keep what was read

PLAN_RUNS = "plan_runs"  # name of the poll that needs them
_REMEMBERED_SNAPSHOTS = 10_000
# A run whose plan is not found requests a new list, but not more often than this: the first where
# the run is newer than the list, so that a new one will show it, the second where it may not.
_LIST_AGE_FOR_NEWER_SECONDS = 5.0
_LIST_AGE_SECONDS = 60.0


class _Snapshot(Struct, frozen=True, kw_only=True, gc=False):
    """What a snapshot never changes."""

    plan_id: str
    flow_ids: tuple[str, ...]  # of its nodes


_DECODER = msgspec.json.Decoder(_Snapshot)


class Plans:
    """Knows the list of plans and, for each snapshot read so far, its plan and that plan's flows.

    A snapshot's id is never handed out: a run whose plan is not known has none.
    """

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._listed: dict[str, PlanRow] = {}
        self._listed_at: float | None = None  # monotonic
        self._listed_until: datetime | None = None  # the same by the workspace's clock
        self._snapshots: BoundedMemory[str, _Snapshot] = BoundedMemory(_REMEMBERED_SNAPSHOTS)
        self._flows: dict[str, set[str]] = {}  # of every remembered snapshot of a plan
        self._unmapped: BoundedMemory[str, bool] = BoundedMemory(_REMEMBERED_SNAPSHOTS)
        self._tries: BoundedMemory[str, int] = BoundedMemory(_REMEMBERED_SNAPSHOTS)

    async def load(self) -> None:
        """Read back what was learned before."""
        stored = await self._context.bus.state_entries(self._context.name, SNAPSHOT)
        # What is damaged is read again.
        known = decode_entries(stored, _DECODER, topic=SNAPSHOT)
        forgotten = [self._put(id_, snapshot) for id_, snapshot in known.items()]
        # A commit that failed may have left more of them than are remembered.
        state_entries = [
            self._context.state_entry(SNAPSHOT, snapshot, None)
            for snapshot in forgotten
            if snapshot is not None
        ]
        await self._context.observer.observe((), state_entries=state_entries)

    async def list_all(self, *, priority: Priority) -> Page[PlanRow]:
        """Read the list of plans again and return all of it. Snapshots in it are left out."""
        asked_at = self._context.workspace_now()
        plans = self._context.client.pipelines.plans(priority=priority)
        pages = [page async for page in plans]
        rows = {row.id: row for page in pages for row in page.rows if not row.is_snapshot}
        # A plan that it lacks is known until it was found to be gone: lists lie in outages.
        self._listed |= rows
        self._listed_at = self._context.clock.monotonic()
        self._listed_until = asked_at
        bad_rows = tuple(bad for page in pages for bad in page.bad_rows)
        return Page(rows=tuple(rows.values()), bad_rows=bad_rows)

    def forget(self, plan_id: str) -> None:
        """Drop a plan that the workspace no longer has, or no longer shows."""
        self._listed.pop(plan_id, None)

    async def plan_of(self, row: PlanRunRow, *, read_again: bool = False) -> Pipeline | None:
        """Return the plan that ran, None where the workspace does not show it.

        ``read_again``: read it also where it was refused before.

        Raises:
            TryLaterError, UnauthorizedError: it could not be read yet.
        """
        if self._listed_at is None:
            await self._refresh()
        if read_again and row.plan_id is not None:
            self._unmapped.forget(row.plan_id)
        plan_id = await self._by_snapshot(row) or await self._by_latest_run(row)
        if plan_id is None:
            return None
        listed = self._listed.get(plan_id)
        name = listed.name if listed is not None else None
        return Pipeline(kind=PipelineKind.PLAN, id=plan_id, name=name)

    async def _by_snapshot(self, row: PlanRunRow) -> str | None:
        if row.plan_id is None or row.plan_id in self._listed:
            return row.plan_id
        known = self._snapshots.get(row.plan_id)
        if known is not None:
            return known.plan_id
        if self._unmapped.get(row.plan_id) is not None:
            return None
        if not self._context.can(Capability.MAP_PLAN_SNAPSHOTS):
            return None
        return await self._read(row.plan_id)

    async def _read(self, snapshot_id: str) -> str | None:
        try:
            full = await self._context.client.pipelines.plan_full(
                snapshot_id, priority=self._context.first_at_once(PLAN_RUNS, Priority.ENDS)
            )
        except (TryLaterError, UnauthorizedError) as error:
            tries = (self._tries.get(snapshot_id) or 0) + is_about_the_object(error)
            self._tries.put(snapshot_id, tries)
            if tries < self._context.settings.attempts:
                raise
            return None
        except WorkspaceError as error:
            log.info("plan snapshot not readable", snapshot=snapshot_id, reason=str(error))
            self._unmapped.put(snapshot_id, value=True)
            return None
        plan_id = await self.learn(snapshot_id, full)
        if plan_id is None:
            self._unmapped.put(snapshot_id, value=True)
        return plan_id

    def flows_of(self, snapshot_id: str) -> tuple[str, ...] | None:
        """Return the flows of a snapshot's nodes; None where it was not read.

        Also None for a plan that is no snapshot: it may have been edited since.
        """
        known = self._snapshots.get(snapshot_id)
        is_snapshot = known is not None and known.plan_id != snapshot_id
        return known.flow_ids if known is not None and is_snapshot else None

    def may_run(self, plan_id: str, flow_id: str | None) -> bool:
        """False where the plan's snapshots that were read show that it does not run this flow."""
        flow_ids = self._flows.get(plan_id)
        return flow_ids is None or flow_id is None or flow_id in flow_ids

    def _put(self, snapshot_id: str, snapshot: _Snapshot) -> str | None:
        self._flows.setdefault(snapshot.plan_id, set()).update(snapshot.flow_ids)
        return self._snapshots.put(snapshot_id, snapshot)

    async def learn(self, snapshot_id: str, full: PlanFull) -> str | None:
        """Keep what a full read shows of a snapshot and return its plan. Durable on return."""
        # One that is no snapshot is a plan that the list does not show us.
        plan_id = full.original_plan_id or (None if full.is_snapshot else full.id)
        if plan_id is None or snapshot_id in self._listed or self._snapshots.get(snapshot_id):
            return plan_id
        snapshot = _Snapshot(plan_id=plan_id, flow_ids=full.flow_ids)
        forgotten = self._put(snapshot_id, snapshot)
        value = msgspec.json.encode(snapshot)
        state_entries = [self._context.state_entry(SNAPSHOT, snapshot_id, value)]
        if forgotten is not None:
            state_entries.append(self._context.state_entry(SNAPSHOT, forgotten, None))
        await self._context.observer.observe((), state_entries=state_entries)
        return plan_id

    async def _by_latest_run(self, row: PlanRunRow) -> str | None:
        """Find the one plan whose latest run is this one, or was created in the same moment."""
        matching = self._matching(row)
        if not matching and self._is_list_old_for(row):
            await self._refresh()
            matching = self._matching(row)
        return matching[0] if len(matching) == 1 else None

    def _matching(self, row: PlanRunRow) -> list[str]:
        plans = self._listed.values()
        by_id = [plan.id for plan in plans if plan.latest_run_id == row.id]
        if by_id or row.created_at is None:
            return by_id
        # Schedules start many plans in one second: a plan whose latest run is another is out.
        return [
            plan.id
            for plan in plans
            if plan.latest_run_id is None and plan.latest_run_created_at == row.created_at
        ]

    def _is_list_old_for(self, row: PlanRunRow) -> bool:
        if self._listed_at is None:
            return True
        until, created_at = self._listed_until, row.created_at
        is_newer = until is not None and created_at is not None and created_at >= until
        limit = _LIST_AGE_FOR_NEWER_SECONDS if is_newer else _LIST_AGE_SECONDS
        return self._context.clock.monotonic() - self._listed_at > limit

    async def _refresh(self) -> None:
        if not self._context.can(Capability.LIST_PLANS):
            return
        try:
            # A run waits for it: with the rest of the names it would hold up the list of runs.
            await self.list_all(priority=self._context.first_at_once(PLAN_RUNS, Priority.ENDS))
        except (TryLaterError, UnauthorizedError):
            raise
        except WorkspaceError as error:
            log.info("plans not listable", reason=str(error))
            self._listed_at = self._context.clock.monotonic()
