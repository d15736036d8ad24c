"""The live state that the page shows: that of one shard, or of all shards as one."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

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


class ShownLiveState(Protocol):
    """What the page reads of live state; each answer is as of `LiveStateView`.

    A port without bodies: an implementation that lacks an answer is no `ShownLiveState`.
    """

    def workspaces(self) -> tuple[WorkspaceStatus, ...]: ...

    def workspace(self, name: str) -> WorkspaceStatus | None: ...

    def reachability_history(
        self, workspace: str, *, now: datetime, stale_after_seconds: float
    ) -> tuple[ReachabilityStretch, ...]: ...

    def active_runs(self, workspace: str | None = None) -> tuple[ActiveRun, ...]: ...

    def active_run(self, key: RunKey) -> ActiveRun | None: ...

    def pipeline_health(self) -> tuple[PipelineHealth, ...]: ...

    def pipelines(self) -> tuple[NamedPipeline, ...]: ...

    def label(self, workspace: str, pipeline: Pipeline | None) -> str: ...

    def recipe_name(self, workspace: str, recipe_id: str) -> str | None: ...

    def why_unwatched(self, workspace: str, what: str) -> str | None: ...

    def unconfirmed_since(self, workspace: str, kind: RunKind) -> datetime | None: ...

    def time_of(self, alert: Alert, now: datetime) -> datetime: ...

    def first_reads(self, workspace: str) -> tuple[str, ...]: ...

    def why_unjudged(self, alert: Alert) -> str | None: ...

    def knows(self, workspace: str, pipeline: Pipeline) -> bool: ...

    def place(self, workspace: str, pipeline: Pipeline) -> tuple[str | None, str | None]: ...

    def polls(self) -> tuple[PollStatus, ...]: ...

    def confirmed(self) -> dict[tuple[str, RunKind], datetime]: ...

    def complete(self) -> dict[tuple[str, RunKind], datetime]: ...
