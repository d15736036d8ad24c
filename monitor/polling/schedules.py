"""When pipelines should start, as far as the token's owner may see it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import structlog

from monitor.model.knowledge import ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind
from monitor.polling.following import Following
from monitor.tracking.workspace_changes import Held
from monitor.workspace.payloads import ScheduleRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()

SCHEDULE = "schedule"
_ENABLED, _DISABLED = "enabled", "disabled"
_LONGEST_REASON = 300


class Schedules:
    """Reads the list of schedules. Only those of the token's owner are shown by the workspace."""

    def __init__(self, following: Following) -> None:
        self._following = following

    async def poll(self) -> None:
        """Overwrite what is known of the schedules with a complete list of them."""
        client = self._following.client
        pages = [page async for page in client.schedules(priority=Priority.INVENTORY)]
        known = tuple(_known(row) for page in pages for row in page.rows)
        # Pages overlap, so a schedule may have been shown twice.
        unique = {one.id: one for one in known}
        self._following.knowledge.update_workspace(
            self._following.name, schedules=tuple(unique.values())
        )
        for pipeline in (pipeline for one in unique.values() for pipeline in one.pipelines):
            self._name(pipeline)
        if self._following.beyond is not None and self._following.beyond.schedules:
            unread = {bad.id for page in pages for bad in page.bad_rows if bad.id is not None}
            await self._tell(unique.values(), unread=unread)

    async def _tell(self, known: Iterable[ScheduleKnown], *, unread: Collection[str]) -> None:
        following = self._following
        held = {one.id: _held(one) for one in known}
        changed = await following.observer.changes.learn_many(
            following.name, SCHEDULE, held, unread=unread
        )
        for one in changed:
            state = held[one].shown
            log.info("schedule changed", workspace=following.name, schedule=one, now=state)

    def _name(self, pipeline: Pipeline) -> None:
        following = self._following
        kind = PipelineKind(pipeline.kind)
        if following.knowledge.name_of(following.name, kind, pipeline.id) is None:
            following.knowledge.name_pipeline(following.name, kind, pipeline.id, pipeline.name)


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
    )
