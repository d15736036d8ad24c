"""The live state of a shard, as far as it is about some workspaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol, TypeVar

from monitor.model.alerts import Alert
from monitor.model.live_state import (
    ActiveRun,
    NamedPipeline,
    PipelineHealth,
    PollStatus,
    ReachabilityStretch,
    WorkspaceStatus,
)
from monitor.model.runs import Pipeline, RunKey, RunKind
from monitor.tracking.live_state import LiveState
from monitor.web.shown_shards import ShownLiveState

Sees = Callable[[str], bool]  # whether a workspace of that name is shown

_OF_NO_WORKSPACE: ShownLiveState = LiveState(()).view


class _OfWorkspace(Protocol):
    @property
    def workspace(self) -> str: ...


W = TypeVar("W", bound=_OfWorkspace)


class RestrictedLiveState:
    """Answers for workspaces that are shown as the whole does, for others as if there were none."""

    def __init__(self, whole: ShownLiveState, sees: Sees) -> None:
        self._whole = whole
        self._sees = sees

    def _of(self, workspace: str) -> ShownLiveState:
        return self._whole if self._sees(workspace) else _OF_NO_WORKSPACE

    def _shown(self, rows: Iterable[W]) -> tuple[W, ...]:
        return tuple(row for row in rows if self._sees(row.workspace))

    def workspaces(self) -> tuple[WorkspaceStatus, ...]:
        return self._shown(self._whole.workspaces())

    def workspace(self, name: str) -> WorkspaceStatus | None:
        return self._of(name).workspace(name)

    def reachability_history(
        self, workspace: str, *, now: datetime, stale_after_seconds: float
    ) -> tuple[ReachabilityStretch, ...]:
        return self._of(workspace).reachability_history(
            workspace, now=now, stale_after_seconds=stale_after_seconds
        )

    def active_runs(self, workspace: str | None = None) -> tuple[ActiveRun, ...]:
        if workspace is not None:
            return self._of(workspace).active_runs(workspace)
        return tuple(
            run for status in self.workspaces() for run in self._whole.active_runs(status.workspace)
        )

    def active_run(self, key: RunKey) -> ActiveRun | None:
        return self._of(key.workspace).active_run(key)

    def pipeline_health(self) -> tuple[PipelineHealth, ...]:
        return self._shown(self._whole.pipeline_health())

    def pipelines(self) -> tuple[NamedPipeline, ...]:
        return self._shown(self._whole.pipelines())

    def label(self, workspace: str, pipeline: Pipeline | None) -> str:
        return self._of(workspace).label(workspace, pipeline)

    def recipe_name(self, workspace: str, recipe_id: str) -> str | None:
        return self._of(workspace).recipe_name(workspace, recipe_id)

    def why_unwatched(self, workspace: str, what: str) -> str | None:
        return self._of(workspace).why_unwatched(workspace, what)

    def why_starved(self, workspace: str, *, monotonic: float) -> str | None:
        return self._of(workspace).why_starved(workspace, monotonic=monotonic)

    def unconfirmed_since(self, workspace: str, kind: RunKind) -> datetime | None:
        return self._of(workspace).unconfirmed_since(workspace, kind)

    def time_of(self, alert: Alert, now: datetime) -> datetime:
        return self._of(alert.workspace).time_of(alert, now)

    def first_reads(self, workspace: str) -> tuple[str, ...]:
        return self._of(workspace).first_reads(workspace)

    def why_unjudged(self, alert: Alert) -> str | None:
        return self._of(alert.workspace).why_unjudged(alert)

    def knows(self, workspace: str, pipeline: Pipeline) -> bool:
        return self._of(workspace).knows(workspace, pipeline)

    def place(self, workspace: str, pipeline: Pipeline) -> tuple[str | None, str | None]:
        return self._of(workspace).place(workspace, pipeline)

    def polls(self) -> tuple[PollStatus, ...]:
        return self._shown(self._whole.polls())

    def confirmed(self) -> dict[tuple[str, RunKind], datetime]:
        return {key: at for key, at in self._whole.confirmed().items() if self._sees(key[0])}

    def complete(self) -> dict[tuple[str, RunKind], datetime]:
        return {key: at for key, at in self._whole.complete().items() if self._sees(key[0])}
