"""When pipelines should start, as far as the token's owner may see it."""

from __future__ import annotations

from monitor.model.knowledge import ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind
from monitor.polling.following import Following
from monitor.workspace.payloads import ScheduleRow
from monitor.workspace.priority import Priority


class Schedules:
    """Reads the list of schedules. Only those of the token's owner are shown by the workspace."""

    def __init__(self, following: Following) -> None:
        self._following = following

    async def poll(self) -> None:
        """Overwrite what is known of the schedules with a complete list of them."""
        client = self._following.client
        known = tuple(
            [
                _known(row)
                async for page in client.schedules(priority=Priority.INVENTORY)
                for row in page.rows
            ]
        )
        # Pages overlap, so a schedule may have been shown twice.
        unique = {one.id: one for one in known}
        self._following.knowledge.update_workspace(
            self._following.name, schedules=tuple(unique.values())
        )
        for pipeline in (pipeline for one in unique.values() for pipeline in one.pipelines):
            self._name(pipeline)

    def _name(self, pipeline: Pipeline) -> None:
        following = self._following
        kind = PipelineKind(pipeline.kind)
        if following.knowledge.name_of(following.name, kind, pipeline.id) is None:
            following.knowledge.name_pipeline(following.name, kind, pipeline.id, pipeline.name)


def _known(row: ScheduleRow) -> ScheduleKnown:
    return ScheduleKnown(
        id=row.id,
        name=row.name or row.id,
        is_enabled=row.is_enabled,
        triggers=row.triggers,
        pipelines=row.pipelines,
        disable_reason=row.disable_reason,
    )
