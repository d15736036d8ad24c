"""The shards that the page shows: those of this daemon from memory, all others from the store.

The live state of several is merged; a daemon with one shard shows that shard's own.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from operator import attrgetter
from typing import Protocol, TypeVar

from msgspec import Struct

from monitor.bus.contract import StoredShard
from monitor.model.alerts import Alert
from monitor.model.checks import CheckLine
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
from monitor.web.requests import AlertingRequests, ShardRequests

T = TypeVar("T")

_OF_NO_SHARD: ShownLiveState = LiveState(()).view  # answers for workspaces of no shard


class ShownLiveState(Protocol):
    """What the page reads of live state; each answer is as of `tracking.live_state.LiveStateView`.

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

    def why_starved(self, workspace: str, *, monotonic: float) -> str | None: ...

    def unconfirmed_since(self, workspace: str, kind: RunKind) -> datetime | None: ...

    def time_of(self, alert: Alert, now: datetime) -> datetime: ...

    def first_reads(self, workspace: str) -> tuple[str, ...]: ...

    def why_unjudged(self, alert: Alert) -> str | None: ...

    def knows(self, workspace: str, pipeline: Pipeline) -> bool: ...

    def place(self, workspace: str, pipeline: Pipeline) -> tuple[str | None, str | None]: ...

    def polls(self) -> tuple[PollStatus, ...]: ...

    def confirmed(self) -> dict[tuple[str, RunKind], datetime]: ...

    def complete(self) -> dict[tuple[str, RunKind], datetime]: ...


def page_url(url: str | None) -> str | None:
    """Return the address of a daemon's page, None where it is no address to link to."""
    return url if url is not None and url.startswith(("https://", "http://")) else None


class Mirrored(Struct, frozen=True, kw_only=True):
    """Who holds a shard that this daemon shows from the store, and how old that is."""

    holder: str | None  # id of a daemon; None: no daemon holds it
    url: str | None  # of the holder's page
    read_at: datetime | None  # our clock; None: not read yet
    reason: str | None = None  # why it is not read now, one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownShard:
    """One shard, and what answers for it; ``mirrored`` None: this daemon holds it."""

    name: str
    bus: StoredShard
    live: ShownLiveState
    alerting: AlertingRequests
    requests: ShardRequests
    outputs: Callable[[], Sequence[CheckLine]]
    mirrored: Callable[[], Mirrored] | None = None


# The same mapping until a shard comes or goes.
ShownShards = Callable[[], Mapping[str, ShownShard]]


class ShardDirectory:
    """Finds the shard of a workspace."""

    def __init__(self, shown: ShownShards) -> None:
        self._shown = shown
        self._of: dict[str, str] = {}  # workspace -> shard in which it was last found

    def all(self) -> Sequence[ShownShard]:
        return tuple(self._shown().values())

    def hosted(self) -> Sequence[ShownShard]:
        """Return the shards that this daemon holds."""
        return [shard for shard in self._shown().values() if shard.mirrored is None]

    def mirrored(self, name: str) -> Mirrored | None:
        """Return who holds a shard, None where this daemon does or does not show it."""
        shard = self._shown().get(name)
        return None if shard is None or shard.mirrored is None else shard.mirrored()

    def mirrored_of(self, workspace: str) -> Mirrored | None:
        """Return who holds the shard of a workspace, None where this daemon does."""
        shard = self.of(workspace)
        return None if shard is None or shard.mirrored is None else shard.mirrored()

    def of(self, workspace: str) -> ShownShard | None:
        """Return the shard of a workspace; None where no shard has it."""
        shown = self._shown()
        shard = shown.get(self._of.get(workspace, ""))
        if shard is not None and shard.live.workspace(workspace) is not None:
            return shard
        for shard in shown.values():
            if shard.live.workspace(workspace) is not None:
                self._of[workspace] = shard.name
                return shard
        self._of.pop(workspace, None)
        return None


def own_or_merged(
    shards: ShardDirectory, own: Callable[[ShownShard], T], merged: T
) -> Callable[[], T]:
    """Return what returns the only shard's own part, and the merged one while there are more."""

    def of_now() -> T:
        shown = shards.all()
        return own(shown[0]) if len(shown) == 1 else merged

    return of_now


def live_state_of(shards: ShardDirectory) -> Callable[[], ShownLiveState]:
    """Return what returns the live state of now: a shard's own where there is one shard."""
    return own_or_merged(shards, attrgetter("live"), MergedLiveState(shards))


class LiveStateByWorkspace(abc.ABC):
    """Answers what is asked about one workspace by the live state that is shown for it."""

    @abc.abstractmethod
    def _of(self, workspace: str) -> ShownLiveState:
        """Return what answers for a workspace, be it one that knows of none."""

    def workspace(self, name: str) -> WorkspaceStatus | None:
        return self._of(name).workspace(name)

    def reachability_history(
        self, workspace: str, *, now: datetime, stale_after_seconds: float
    ) -> tuple[ReachabilityStretch, ...]:
        return self._of(workspace).reachability_history(
            workspace, now=now, stale_after_seconds=stale_after_seconds
        )

    def active_run(self, key: RunKey) -> ActiveRun | None:
        return self._of(key.workspace).active_run(key)

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


class MergedLiveState(LiveStateByWorkspace):
    """Reads the live states of several shards; a lookup goes to the shard of its workspace."""

    def __init__(self, shards: ShardDirectory) -> None:
        self._shards = shards

    def _views(self) -> list[ShownLiveState]:
        return [shard.live for shard in self._shards.all()]

    def _of(self, workspace: str) -> ShownLiveState:
        shard = self._shards.of(workspace)
        return _OF_NO_SHARD if shard is None else shard.live

    def workspaces(self) -> tuple[WorkspaceStatus, ...]:
        return tuple(chain.from_iterable(view.workspaces() for view in self._views()))

    def active_runs(self, workspace: str | None = None) -> tuple[ActiveRun, ...]:
        if workspace is not None:
            return self._of(workspace).active_runs(workspace)
        return tuple(chain.from_iterable(view.active_runs() for view in self._views()))

    def pipeline_health(self) -> tuple[PipelineHealth, ...]:
        return tuple(chain.from_iterable(view.pipeline_health() for view in self._views()))

    def pipelines(self) -> tuple[NamedPipeline, ...]:
        return tuple(chain.from_iterable(view.pipelines() for view in self._views()))

    def polls(self) -> tuple[PollStatus, ...]:
        return tuple(chain.from_iterable(view.polls() for view in self._views()))

    def confirmed(self) -> dict[tuple[str, RunKind], datetime]:
        return dict(chain.from_iterable(view.confirmed().items() for view in self._views()))

    def complete(self) -> dict[tuple[str, RunKind], datetime]:
        return dict(chain.from_iterable(view.complete().items() for view in self._views()))
