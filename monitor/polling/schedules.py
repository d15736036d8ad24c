"""When pipelines should start, as far as the token's owner may see it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import WorkspaceError
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind
from monitor.polling.failures import is_about_what_was_asked
from monitor.polling.following import Following
from monitor.tracking.workspace_changes import TrackedValue
from monitor.workspace.payloads import BadRow, ScheduleRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

SCHEDULE = "schedule"
_ENABLED, _DISABLED = "enabled", "disabled"
_LONGEST_REASON = 300


class Schedules:
    """Reads the list of schedules. Only those of the token's owner are shown by the workspace."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self._owner: str | None = None
        self._named: frozenset[tuple[PipelineKind, str]] = frozenset()  # by the newest reading

    async def poll(self) -> None:
        """Overwrite what is known of the schedules with a complete list of them."""
        following = self._following
        status = following.live_state.workspaces[following.name]
        # What was changed before this moment is in the list.
        read_at = following.workspace_now()
        client = following.client
        pages = [page async for page in client.pipelines.schedules(priority=Priority.INVENTORY)]
        # Pages overlap, so a schedule may have been shown twice.
        rows = {row.id: row for page in pages for row in page.rows}
        unique = {row.id: _known(row) for row in rows.values()}
        bad_rows = [bad for page in pages for bad in page.bad_rows]
        following.live_state.update_workspace(
            following.name,
            schedules=(*unique.values(), *self._unreadable(unique, bad_rows)),
            schedules_read_at=read_at,
            schedules_read_before=status.schedules_read_at,
            schedules_of=await self._whose(),
        )
        self._name(
            pipeline
            for row in rows.values()
            for pipeline in row.pipelines
            if pipeline not in row.deleted
        )
        if following.inventory is not None and following.inventory.schedules:
            unread = {bad.id for bad in bad_rows if bad.id is not None}
            await self._tell(unique.values(), unread=unread)

    def _unreadable(
        self, read: Collection[str], bad_rows: Collection[BadRow]
    ) -> list[ScheduleKnown]:
        """Return what was known of schedules that are listed but could not be read this time."""
        before = self._following.live_state.workspaces[self._following.name].schedules
        bad_ids = {bad.id for bad in bad_rows}
        # A row without even an id may be any of those that are missing.
        return [
            schedule
            for schedule in before
            if schedule.id not in read and (schedule.id in bad_ids or None in bad_ids)
        ]

    async def _whose(self) -> str | None:
        """Return whose token this is, asked once; None where the workspace does not tell."""
        if self._owner is None and self._following.can(Capability.KNOW_THE_PERSON):
            try:
                person = await self._following.client.inventory.current_person(
                    priority=Priority.INVENTORY
                )
            except WorkspaceError as error:
                if not is_about_what_was_asked(error):
                    raise
                log.info("whose schedules are seen is not told", reason=str(error))
                return None
            self._owner = person.email or person.name or f"person {person.id}"
        return self._owner

    async def _tell(self, known: Iterable[ScheduleKnown], *, unread: Collection[str]) -> None:
        following = self._following
        held = {schedule_known.id: _held(schedule_known) for schedule_known in known}
        changed = await following.observer.changes.learn_many(
            following.name, SCHEDULE, held, unread=unread
        )
        for item in changed:
            state = held[item].shown
            log.info("schedule changed", workspace=following.name, schedule=item, now=state)

    def _name(self, pipelines: Iterable[Pipeline]) -> None:
        """Make known what no list of flows and plans has shown.

        Once only: what is unknown again was deleted, and its schedule may stay for ever.
        """
        following = self._following
        named = {
            (PipelineKind(pipeline.kind), pipeline.id): pipeline.name for pipeline in pipelines
        }
        for (kind, pipeline_id), name in named.items():
            is_known = following.live_state.name_of(following.name, kind, pipeline_id) is not None
            if not is_known and (kind, pipeline_id) not in self._named:
                following.live_state.name_pipeline(following.name, kind, pipeline_id, name)
        self._named = frozenset(named)


def _held(schedule_known: ScheduleKnown) -> TrackedValue:
    if schedule_known.is_enabled:
        return TrackedValue(held=_ENABLED, shown=_ENABLED)
    reason = (
        f": {schedule_known.disable_reason[:_LONGEST_REASON]}"
        if schedule_known.disable_reason
        else ""
    )
    return TrackedValue(held=_DISABLED, shown=f"{_DISABLED}{reason}")


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
