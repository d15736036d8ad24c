"""When pipelines should start, as far as the token's owner may see it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import WorkspaceError
from monitor.model.knowledge import ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind
from monitor.polling.failures import is_about_what_was_asked
from monitor.polling.following import Following
from monitor.tracking.workspace_changes import Held
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
        standing = following.knowledge.workspaces[following.name]
        # What was changed before this moment is in the list.
        read_at = following.workspace_now()
        client = following.client
        pages = [page async for page in client.schedules(priority=Priority.INVENTORY)]
        # Pages overlap, so a schedule may have been shown twice.
        rows = {row.id: row for page in pages for row in page.rows}
        unique = {row.id: _known(row) for row in rows.values()}
        bad_rows = [bad for page in pages for bad in page.bad_rows]
        following.knowledge.update_workspace(
            following.name,
            schedules=(*unique.values(), *self._unreadable(unique, bad_rows)),
            schedules_read_at=read_at,
            schedules_read_before=standing.schedules_read_at,
            schedules_of=await self._whose(),
        )
        self._name(one for row in rows.values() for one in row.pipelines if one not in row.deleted)
        if following.beyond is not None and following.beyond.schedules:
            unread = {bad.id for bad in bad_rows if bad.id is not None}
            await self._tell(unique.values(), unread=unread)

    def _unreadable(
        self, read: Collection[str], bad_rows: Collection[BadRow]
    ) -> list[ScheduleKnown]:
        """Return what was known of schedules that are listed but could not be read this time."""
        before = self._following.knowledge.workspaces[self._following.name].schedules
        bad_ids = {bad.id for bad in bad_rows}
        # A row without even an id may be any of those that are missing.
        return [
            one for one in before if one.id not in read and (one.id in bad_ids or None in bad_ids)
        ]

    async def _whose(self) -> str | None:
        """Return whose token this is, asked once; None where the workspace does not tell."""
        if self._owner is None and self._following.can(Capability.KNOW_THE_PERSON):
            try:
                person = await self._following.client.current_person(priority=Priority.INVENTORY)
            except WorkspaceError as error:
                if not is_about_what_was_asked(error):
                    raise
                log.info("whose schedules are seen is not told", reason=str(error))
                return None
            self._owner = person.email or person.name or f"person {person.id}"
        return self._owner

    async def _tell(self, known: Iterable[ScheduleKnown], *, unread: Collection[str]) -> None:
        following = self._following
        held = {one.id: _held(one) for one in known}
        changed = await following.observer.changes.learn_many(
            following.name, SCHEDULE, held, unread=unread
        )
        for one in changed:
            state = held[one].shown
            log.info("schedule changed", workspace=following.name, schedule=one, now=state)

    def _name(self, pipelines: Iterable[Pipeline]) -> None:
        """Make known what no list of flows and plans has shown.

        Once only: what is unknown again was deleted, and its schedule may stay for ever.
        """
        following = self._following
        named = {(PipelineKind(one.kind), one.id): one.name for one in pipelines}
        for (kind, pipeline_id), name in named.items():
            is_known = following.knowledge.name_of(following.name, kind, pipeline_id) is not None
            if not is_known and (kind, pipeline_id) not in self._named:
                following.knowledge.name_pipeline(following.name, kind, pipeline_id, name)
        self._named = frozenset(named)


def _held(one: ScheduleKnown) -> Held:
    if one.is_enabled:
        return Held(held=_ENABLED, shown=_ENABLED)
    reason = f": {one.disable_reason[:_LONGEST_REASON]}" if one.disable_reason else ""
    return Held(held=_DISABLED, shown=f"{_DISABLED}{reason}")


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
        deleted=tuple(one for one in row.pipelines if one in row.deleted),
    )
