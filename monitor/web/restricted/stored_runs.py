"""Stored runs and events, as far as they are of some workspaces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime

from monitor.bus.contract import Recorded, StoredRuns
from monitor.model.alerts import PipelineOfKind
from monitor.model.runs import RunKey, RunKind, RunState, Status
from monitor.web.restricted.live_state import Sees


class RestrictedRuns:
    """Answers for workspaces that are shown as the whole does, for others as if it had none."""

    def __init__(
        self, whole: StoredRuns, sees: Sees, workspaces: Callable[[], Iterable[str]]
    ) -> None:
        """``workspaces`` returns the names of those that are shown now."""
        self._whole = whole
        self._sees = sees
        self._workspaces = workspaces

    async def runs(self, keys: Collection[RunKey]) -> dict[RunKey, RunState]:
        return await self._whole.runs([key for key in keys if self._sees(key.workspace)])

    async def active_runs(self, workspace: str) -> list[RunState]:
        return await self._whole.active_runs(workspace) if self._sees(workspace) else []

    async def recent_runs(
        self,
        *,
        workspaces: Collection[str] | None = None,
        kind: RunKind | None = None,
        statuses: Collection[Status] = (),
        pipelines: Collection[PipelineOfKind] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: RunKey | None = None,
        limit: int,
    ) -> list[RunState]:
        if before is not None and not self._sees(before.workspace):
            return []
        names = self._workspaces() if workspaces is None else workspaces
        return await self._whole.recent_runs(
            workspaces=[name for name in names if self._sees(name)],
            kind=kind,
            statuses=statuses,
            pipelines=None if pipelines is None else self._shown(pipelines),
            since=since,
            until=until,
            before=before,
            limit=limit,
        )

    async def pipeline_runs(
        self,
        pipelines: Collection[PipelineOfKind],
        *,
        limit: int,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> dict[PipelineOfKind, list[RunState]]:
        return await self._whole.pipeline_runs(
            self._shown(pipelines), limit=limit, since=since, before=before
        )

    async def children(self, key: RunKey) -> list[RunState]:
        return await self._whole.children(key) if self._sees(key.workspace) else []

    async def state_entries(self, workspace: str, topic: str) -> dict[str, bytes]:
        if not self._sees(workspace):
            return {}
        return await self._whole.state_entries(workspace, topic)

    async def events_by_id(self, ids: Collection[str]) -> dict[str, Recorded]:
        found = await self._whole.events_by_id(ids)
        return {
            name: recorded
            for name, recorded in found.items()
            if self._sees(recorded.event.workspace)
        }

    def _shown(self, pipelines: Collection[PipelineOfKind]) -> list[PipelineOfKind]:
        return [pipeline for pipeline in pipelines if self._sees(pipeline[0])]
