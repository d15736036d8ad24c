"""The schedules of the token's owner: when pipelines should start."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind
from monitor.polling.lists.list_check import ListChecks
from monitor.polling.lists.listed_objects import ListedObjects
from monitor.polling.lists.token_owner import TokenOwner
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, every
from monitor.tracking.workspace_changes import TrackedValue
from monitor.workspace.payloads import BadRow, ScheduleRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

SCHEDULE = "schedule"
_SCHEDULES = "schedules"  # name of the poll
_ENABLED, _DISABLED = "enabled", "disabled"
_LONGEST_REASON = 300


class Schedules:
    """Reads the list of schedules. Only those of the token's owner are shown by the workspace."""

    def __init__(self, context: PollContext, *, checks: ListChecks, owner: TokenOwner) -> None:
        self._context = context
        self._owner = owner
        self._listed = ListedObjects(
            context,
            SCHEDULE,
            check=checks.schedules,
            owner=owner,
            read=partial(context.client.pipelines.schedule, priority=Priority.SCHEDULES),
            # No right to an own schedule is withdrawn: where others are shown, it is gone.
            hidden_seconds=0.0,
        )
        self._named: frozenset[tuple[PipelineKind, str]] = frozenset()  # by the newest reading

    def declared(self) -> tuple[Poll, ...]:
        return (
            Poll(
                name=_SCHEDULES,
                priority=Priority.SCHEDULES,
                timing=every(self._context.settings.schedules_seconds),
                run=self.poll,
                needs=Capability.READ_SCHEDULES,
                forget=self._listed.check.forget,
            ),
        )

    async def load(self) -> None:
        """Read back which schedules were listed last."""
        await self._listed.load()

    async def poll(self) -> None:
        """Overwrite what is known of the schedules with a complete list of them.

        Raises:
            DoubtedListError: the list lacks what must be in it; all stays as it was.
        """
        context = self._context
        status = context.live_state.workspaces[context.name]
        # What was changed before this moment is in the list.
        read_at, asked = context.workspace_now(), context.clock.monotonic()
        client = context.client
        priority = context.first_at_once(_SCHEDULES, Priority.SCHEDULES)
        pages = [page async for page in client.pipelines.schedules(priority=priority)]
        # Pages overlap, so a schedule may have been shown twice.
        rows = {row.id: row for page in pages for row in page.rows}
        unique = {row.id: _known(row) for row in rows.values()}
        bad_rows = [bad for page in pages for bad in page.bad_rows]
        await self._listed.compare(unique.keys(), bad_rows, asked=asked, remove=_remove)
        context.live_state.update_workspace(
            context.name,
            schedules=(*unique.values(), *self._unreadable(unique, bad_rows)),
            schedules_read_at=read_at,
            schedules_read_before=status.schedules_read_at,
            schedules_of=await self._owner.known(),
        )
        self._name(
            pipeline
            for row in rows.values()
            for pipeline in row.pipelines
            if pipeline not in row.deleted
        )
        if context.inventory is not None and context.inventory.schedules:
            unread = {bad.id for bad in bad_rows if bad.id is not None}
            await self._publish(unique.values(), unread=unread)

    def _unreadable(
        self, read: Collection[str], bad_rows: Collection[BadRow]
    ) -> list[ScheduleKnown]:
        """Return what was known of schedules that are listed but could not be read this time."""
        before = self._context.live_state.workspaces[self._context.name].schedules
        bad_ids = {bad.id for bad in bad_rows}
        # A row without even an id may be any of those that are missing.
        return [
            schedule
            for schedule in before
            if schedule.id not in read and (schedule.id in bad_ids or None in bad_ids)
        ]

    async def _publish(self, known: Iterable[ScheduleKnown], *, unread: Collection[str]) -> None:
        context = self._context
        values = {schedule_known.id: _tracked(schedule_known) for schedule_known in known}
        changed = await context.observer.changes.learn_many(
            context.name, SCHEDULE, values, unread=unread
        )
        for schedule_id in changed:
            state = values[schedule_id].shown
            log.info("schedule changed", workspace=context.name, schedule=schedule_id, now=state)

    def _name(self, pipelines: Iterable[Pipeline]) -> None:
        """Name the pipelines that no list of flows and plans has shown.

        Once only: what is unknown again was deleted, and its schedule may stay.
        """
        context = self._context
        named = {
            (PipelineKind(pipeline.kind), pipeline.id): pipeline.name for pipeline in pipelines
        }
        for (kind, pipeline_id), name in named.items():
            names = context.live_state.names
            is_known = names.name_of((context.name, kind, pipeline_id)) is not None
            if not is_known and (kind, pipeline_id) not in self._named:
                context.live_state.name_pipeline(context.name, kind, pipeline_id, name)
        self._named = frozenset(named)


async def _remove(_schedule_id: str, _is_gone: bool) -> bool:  # noqa: FBT001 - a callback's signature
    return True  # the list that lacks it overwrites what was known


def _tracked(schedule_known: ScheduleKnown) -> TrackedValue:
    if schedule_known.is_enabled:
        return TrackedValue(stored=_ENABLED, shown=_ENABLED)
    reason = (
        f": {schedule_known.disable_reason[:_LONGEST_REASON]}"
        if schedule_known.disable_reason
        else ""
    )
    return TrackedValue(stored=_DISABLED, shown=f"{_DISABLED}{reason}")


def _known(row: ScheduleRow) -> ScheduleKnown:
    return ScheduleKnown(
        id=row.id,
        name=row.name or row.id,
        is_enabled=row.is_enabled,
        triggers=row.triggers,
        pipelines=row.pipelines,
        disable_reason=row.disable_reason,
        created_at=row.created_at,
        updated_at=row.updated_at,
        owner_id=row.owner_id,
        deleted=tuple(pipeline for pipeline in row.pipelines if pipeline in row.deleted),
    )
