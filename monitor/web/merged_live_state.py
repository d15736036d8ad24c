"""The live state of all shards as one view: a lookup goes to the shard of its workspace."""

from __future__ import annotations

from datetime import datetime
from itertools import chain

from monitor.model.alerts import Alert
from monitor.model.live_state import (
    ActiveRun,
    NamedPipeline,
    PipelineHealth,
    PollStatus,
    ReachabilityStretch,
    WorkspaceStatus,
)
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind
from monitor.tracking.live_state import LiveState, LiveStateView
from monitor.web.shown_shards import ShardDirectory


class MergedLiveStateView(LiveStateView):
    """Reads the live states of several shards; of one it returns that shard's own answers."""

    def __init__(self, shards: ShardDirectory) -> None:
        super().__init__(LiveState(()))  # answers for workspaces of no shard
        self._shards = shards
        self._named: list[tuple[NamedPipeline, ...]] = []  # of each shard, and all of them:
        self._all_named: tuple[NamedPipeline, ...] = ()

    def _views(self) -> list[LiveStateView]:
        return [shard.live for shard in self._shards.all()]

    def _of(self, workspace: str) -> LiveStateView:
        shard = self._shards.of(workspace)
        return self._live_state.view if shard is None else shard.live

    def workspaces(self) -> tuple[WorkspaceStatus, ...]:
        return tuple(chain.from_iterable(view.workspaces() for view in self._views()))

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
        return tuple(chain.from_iterable(view.active_runs() for view in self._views()))

    def active_run(self, key: RunKey) -> ActiveRun | None:
        return self._of(key.workspace).active_run(key)

    def pipeline_health(self) -> tuple[PipelineHealth, ...]:
        return tuple(chain.from_iterable(view.pipeline_health() for view in self._views()))

    def pipelines(self) -> tuple[NamedPipeline, ...]:
        """Return every known pipeline; the same tuple until one of them changes."""
        named = [view.pipelines() for view in self._views()]
        if len(named) == 1:
            return named[0]
        if len(named) != len(self._named) or any(
            new is not known for new, known in zip(named, self._named, strict=True)
        ):
            self._named, self._all_named = named, tuple(chain.from_iterable(named))
        return self._all_named

    def label(self, workspace: str, pipeline: Pipeline | None) -> str:
        return self._of(workspace).label(workspace, pipeline)

    def name_of(self, workspace: str, pipeline: Pipeline) -> str | None:
        return self._of(workspace).name_of(workspace, pipeline)

    def named(self, workspace: str, kind: PipelineKind, label: str) -> str | None:
        return self._of(workspace).named(workspace, kind, label)

    def recipe_name(self, workspace: str, recipe_id: str) -> str | None:
        return self._of(workspace).recipe_name(workspace, recipe_id)

    def why_unwatched(self, workspace: str, what: str) -> str | None:
        return self._of(workspace).why_unwatched(workspace, what)

    def why_starved(self, workspace: str, *, monotonic: float) -> str | None:
        return self._of(workspace).why_starved(workspace, monotonic=monotonic)

    def why_unshared(self, workspace: str, pipeline: Pipeline | None) -> str | None:
        return self._of(workspace).why_unshared(workspace, pipeline)

    def is_unread(self, workspace: str, kind: RunKind) -> bool:
        return self._of(workspace).is_unread(workspace, kind)

    def unconfirmed_since(self, workspace: str, kind: RunKind) -> datetime | None:
        return self._of(workspace).unconfirmed_since(workspace, kind)

    def first_reads(self, workspace: str) -> tuple[str, ...]:
        return self._of(workspace).first_reads(workspace)

    def why_unjudged(self, alert: Alert) -> str | None:
        return self._of(alert.workspace).why_unjudged(alert)

    def knows(self, workspace: str, pipeline: Pipeline) -> bool:
        return self._of(workspace).knows(workspace, pipeline)

    def place(self, workspace: str, pipeline: Pipeline) -> tuple[str | None, str | None]:
        return self._of(workspace).place(workspace, pipeline)

    def polls(self) -> tuple[PollStatus, ...]:
        return tuple(chain.from_iterable(view.polls() for view in self._views()))

    def confirmed(self) -> dict[tuple[str, RunKind], datetime]:
        return dict(chain.from_iterable(view.confirmed().items() for view in self._views()))

    def complete(self) -> dict[tuple[str, RunKind], datetime]:
        return dict(chain.from_iterable(view.complete().items() for view in self._views()))
