"""The live state of a shard, as far as it is about some workspaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol, TypeVar

from monitor.model.live_state import (
    ActiveRun,
    NamedPipeline,
    PipelineHealth,
    PollStatus,
    WorkspaceStatus,
)
from monitor.model.runs import RunKind
from monitor.tracking.live_state import LiveState
from monitor.web.shown_shards import LiveStateByWorkspace, ShownLiveState

Sees = Callable[[str], bool]  # whether a workspace of that name is shown

_OF_NO_WORKSPACE: ShownLiveState = LiveState(()).view


class _OfWorkspace(Protocol):
    @property
    def workspace(self) -> str: ...


W = TypeVar("W", bound=_OfWorkspace)


class RestrictedLiveState(LiveStateByWorkspace):
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

    def active_runs(self, workspace: str | None = None) -> tuple[ActiveRun, ...]:
        if workspace is not None:
            return self._of(workspace).active_runs(workspace)
        return tuple(
            run for status in self.workspaces() for run in self._whole.active_runs(status.workspace)
        )

    def pipeline_health(self) -> tuple[PipelineHealth, ...]:
        return self._shown(self._whole.pipeline_health())

    def pipelines(self) -> tuple[NamedPipeline, ...]:
        return self._shown(self._whole.pipelines())

    def polls(self) -> tuple[PollStatus, ...]:
        return self._shown(self._whole.polls())

    def confirmed(self) -> dict[tuple[str, RunKind], datetime]:
        return {key: at for key, at in self._whole.confirmed().items() if self._sees(key[0])}

    def complete(self) -> dict[tuple[str, RunKind], datetime]:
        return {key: at for key, at in self._whole.complete().items() if self._sees(key[0])}
