"""The payloads of the retained topics: the live state and the alerts. No I/O and no clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from monitor.model.alerts import Alert, AlertingSnapshot
from monitor.model.ends import RunEnd
from monitor.model.live_state import (
    ActiveRun,
    PipelineHealth,
    PollStatus,
    Reachability,
    WorkspaceStatus,
)
from monitor.model.overall_health import newest_of
from monitor.model.public_shapes import filled
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Source, Status
from monitor.outputs.cloudevents import INSTANT_NAMES, AlertData, Instant, alert_data
from monitor.outputs.event_output import DaemonInfo
from monitor.outputs.freshness import knows_what_runs
from monitor.outputs.mqtt.topics import Topics
from monitor.tracking.live_state import LiveStateView

ACTIVE_RUNS_LISTED = 50  # per pipeline; ``active_count`` counts them all
NextStart = Callable[[str, Pipeline], datetime | None]
BridgeWord = Literal["online", "stopped", "offline"]
PipelineIdentity = tuple[str, RunKind, str]  # workspace, kind of run, pipeline id
# The runs that schedules start.
_SCHEDULED_RUNS = {PipelineKind.FLOW: RunKind.FLOW_RUN, PipelineKind.PLAN: RunKind.PLAN_RUN}
_AGE_FIELDS = {"known_at", "known_by"}
_encoder = msgspec.json.Encoder()


class AlertStatus(AlertData, frozen=True, kw_only=True):
    """One alert; ``endsAt`` is null while it fires.

    What Alertmanager names has its names, all else is in snake_case. ``muted_by`` says why it
    fires without a notification: ``silence:ID``, ``mute``, ``inhibited:FINGERPRINT``;
    ``unjudged`` why it is unknown whether it is over. ``evidence`` are ids of events,
    ``evidence_count`` counts them all.
    """

    run: str | None
    reminders: int
    unjudged: str | None


def status_of(alert: Alert, at: datetime, *, unjudged: str | None = None) -> AlertStatus:
    """Return what the topic of an alert that fires, or did, should hold."""
    run = None if alert.run is None else alert.run.id
    return alert_data(AlertStatus, alert, at, run=run, unjudged=unjudged)


class BridgeState(Struct, frozen=True):
    """``online``, ``stopped`` after a clean stop, ``offline`` as the last will."""

    state: BridgeWord


class WorkspaceState(Struct, frozen=True, kw_only=True):
    """How a workspace answers. ``known_at`` is our time of the last confirmation.

    ``state`` is ``unknown`` before that, and again when no poll has confirmed it for too long.
    """

    workspace: str
    state: Reachability
    since: Instant | None
    reason: str | None
    edition: str | None
    known_at: Instant | None


class PipelineStateData(Struct, frozen=True, kw_only=True):
    """The flow or plan; the name is the present one."""

    kind: PipelineKind
    id: str
    name: str | None


class ActiveRunData(Struct, frozen=True, kw_only=True, rename=INSTANT_NAMES):
    """A run that has not ended as far as we know. Instants are the workspace's.

    ``status`` is ``unknown`` where what runs is unknown; the rest is what was observed last.
    ``unconfirmed_end`` is the end that only a callback has reported so far.
    """

    id: str
    status: Annotated[str, Meta(extra_json_schema={"enum": [*Status, "unknown"]})]
    unconfirmed_end: Status | None
    native_status: str | None
    created_at: Instant | None
    started_at: Instant | None
    percent_complete: float | None
    heartbeat_at: Instant | None
    url: str | None


class LastRunData(Struct, frozen=True, kw_only=True, rename=INSTANT_NAMES):
    """The run that ended last, by when it ended."""

    id: str | None
    status: Status | None
    started_at: Instant | None
    finished_at: Instant | None
    duration_seconds: float | None


class PipelineState(Struct, frozen=True, kw_only=True, rename=INSTANT_NAMES):
    """One pipeline's snapshot for one kind of run.

    ``state`` says whether what runs is ``known`` or ``unknown``, because it was not confirmed
    for too long; then ``active_count`` is null. Ended runs stay as they ended.

    ``known_at`` is our time at which the least recently confirmed part of it was confirmed, by
    ``known_by``. Of several recipes the worst counts: ``last_success_at`` is the oldest of theirs,
    null while one has never succeeded, and ``consecutive_failures`` the most of any.
    """

    workspace: str
    kind: RunKind
    pipeline: PipelineStateData
    state: Literal["known", "unknown"]
    active_count: int | None
    active_runs: tuple[ActiveRunData, ...]
    last_run: LastRunData | None
    last_success_at: Instant | None
    consecutive_failures: int
    expected_start_at: Instant | None
    known_at: Instant | None
    known_by: Source | None


T = TypeVar("T", WorkspaceState, PipelineState, AlertStatus)


class Retained(Struct, Generic[T], frozen=True, gc=False):
    """What one topic should hold. A change of ``known_at`` alone is no news."""

    topic: str
    state: T
    is_alive: bool  # its ``known_at`` moves, so it is published again from time to time

    def payload(self) -> bytes:
        return _encoder.encode(self.state)

    def essence(self) -> int:
        """Return a number that changes when the state does, apart from its age."""
        timeless = dict.fromkeys(_AGE_FIELDS & set(self.state.__struct_fields__))
        return hash(_encoder.encode(msgspec.structs.replace(self.state, **timeless)))


AnyRetained = Retained[WorkspaceState] | Retained[PipelineState] | Retained[AlertStatus]


class StateSnapshot:
    """The live state at one time, grouped by pipeline as it is added."""

    def __init__(
        self,
        view: LiveStateView,
        topics: Topics,
        next_start: NextStart,
        *,
        known_since: datetime,
        seen_since: datetime,
        overdue_since: float,
        only: Collection[PipelineIdentity] | None = None,
    ) -> None:
        """``overdue_since`` is ``known_since`` by our monotonic clock, as polls are due.

        ``only`` names the pipelines that matter; None means all of them.
        """
        self._topics = topics
        self._known_since = known_since
        self._seen_since = seen_since
        self._overdue_since = overdue_since
        self._only = only
        self._only_ids = None if only is None else {pipeline_id for _, _, pipeline_id in only}
        self._next_start = next_start
        self._name_of = view.name_of
        self._is_unread = view.is_unread
        self._confirmed = view.confirmed()
        self._workspaces = {workspace.workspace: workspace for workspace in view.workspaces()}
        self._due = _latest_due(view.polls())  # when each workspace should have been polled again
        # Tuples, because the garbage collector visits every list again, however short.
        self._pipeline_health: dict[PipelineIdentity, tuple[PipelineHealth, ...]] = {}
        self._active: dict[PipelineIdentity, list[ActiveRun]] = {}
        self._is_idle_known: dict[tuple[str, RunKind], bool] = {}

    def add_health(self, pipeline_health: Iterable[PipelineHealth]) -> None:
        """Add what the last runs of pipelines were like."""
        ids = self._only_ids
        for health in pipeline_health:
            if ids is None or health.pipeline.id in ids:
                identity = (health.workspace, health.run_kind, health.pipeline.id)
                others = self._pipeline_health.get(identity, ())
                self._pipeline_health[identity] = (*others, health)

    def add_active(self, active_runs: Iterable[ActiveRun]) -> None:
        """Add runs that have not ended."""
        ids = self._only_ids
        for active in active_runs:
            pipeline = active.run.pipeline
            if pipeline is not None and (ids is None or pipeline.id in ids):
                key = active.run.key
                identity = (key.workspace, key.kind, pipeline.id)
                self._active.setdefault(identity, []).append(active)

    def workspaces(self) -> Iterator[Retained[WorkspaceState]]:
        for health in self._workspaces.values():
            yield self._workspace(health)

    def identities(self) -> Iterator[PipelineIdentity]:
        """Yield every pipeline of a configured workspace that has run or is running, once.

        Each is forgotten when the next one is asked for: to drop all of them at the end would take
        long, with the runs that have changed since.
        """
        for known in (self._pipeline_health, self._active):
            for identity in list(known):
                if identity[0] in self._workspaces and self._is_needed(identity):
                    yield identity
                self._pipeline_health.pop(identity, None)
                self._active.pop(identity, None)

    def _is_needed(self, identity: PipelineIdentity) -> bool:
        return self._only is None or identity in self._only

    def is_confirmed(self, workspace: str) -> bool:
        """True once the workspace has answered, so that what is not known is not there."""
        health = self._workspaces.get(workspace)
        return health is not None and health.known_at is not None

    def basis(self, identity: PipelineIdentity) -> tuple[object, ...] | None:
        """Return what the state of an idle pipeline follows from; None while a run is active.

        Equal ones make equal states but for their age, and are compared much sooner.
        """
        if identity in self._active:
            return None
        workspace, kind, _ = identity
        health = self._pipeline_health[identity]
        pipeline = health[0].pipeline
        return (
            *health,
            self._knows_what_runs(workspace, kind, pipeline, oldest=None),
            self._name_of(workspace, pipeline),
            self._next_start(workspace, pipeline),
        )

    def pipeline(self, identity: PipelineIdentity) -> Retained[PipelineState] | None:
        """Return one pipeline's snapshot, None where nothing is known of it."""
        workspace, kind, pipeline_id = identity
        pipeline_health = self._pipeline_health.get(identity, ())
        active = self._active.get(identity, ())
        pipeline = _pipeline_of(pipeline_health, active)
        if pipeline is None or workspace not in self._workspaces:
            return None
        name = self._name_of(workspace, pipeline) or pipeline.name
        newest = newest_of(pipeline_health)
        oldest = min(active, key=lambda active_run: active_run.confirmed_at, default=None)
        listed_at = self._confirmed.get((workspace, kind))
        is_known = self._knows_what_runs(workspace, kind, pipeline, oldest=oldest)
        state = PipelineState(
            workspace=workspace,
            kind=kind,
            pipeline=PipelineStateData(kind=pipeline.kind, id=pipeline_id, name=name),
            state="known" if is_known else "unknown",
            active_count=len(active) if is_known else None,
            active_runs=_listed(active, is_known=is_known),
            last_run=None if newest is None else _last_run(newest.ends[-1]),
            last_success_at=_last_success(pipeline_health),
            consecutive_failures=max(
                (health.consecutive_failures for health in pipeline_health), default=0
            ),
            expected_start_at=self._next_start(workspace, pipeline),
            known_at=listed_at if oldest is None else oldest.confirmed_at,
            known_by=None if oldest is None else oldest.confirmed_by,
        )
        topic = self._topics.pipeline_state(workspace, kind, pipeline_id)
        return Retained(topic, state, is_alive=bool(active))

    def _knows_what_runs(
        self, workspace: str, kind: RunKind, pipeline: Pipeline, *, oldest: ActiveRun | None
    ) -> bool:
        if self._workspaces[workspace].why_unshared(pipeline) is not None:
            return False
        known = None if oldest else self._is_idle_known.get((workspace, kind))
        if known is None:
            known = knows_what_runs(
                self._workspaces[workspace],
                kind,
                is_unread=self._is_unread(workspace, kind),
                oldest_at=None if oldest is None else oldest.confirmed_at,
                listed_at=self._confirmed.get((workspace, kind)),
                known_since=self._known_since,
                seen_since=self._seen_since,
            )
        if oldest is None:
            self._is_idle_known[workspace, kind] = known
        return known

    def _workspace(self, health: WorkspaceStatus) -> Retained[WorkspaceState]:
        # A workspace that is read seldom is not unknown between two reads.
        is_overdue = self._due.get(health.workspace, self._overdue_since) <= self._overdue_since
        is_old = health.known_at is None or health.known_at < self._known_since
        word = Reachability.UNKNOWN if is_old and is_overdue else health.reachability
        state = filled(WorkspaceState, health, state=word)
        return Retained(self._topics.workspace_state(health.workspace), state, is_alive=True)


def _latest_due(polls: Iterable[PollStatus]) -> dict[str, float]:
    latest: dict[str, float] = {}
    for poll in polls:
        if (at := poll.overdue_at) is not None:
            latest[poll.workspace] = max(at, latest.get(poll.workspace, at))
    return latest


def next_start(
    alerting: AlertingSnapshot,
    view: LiveStateView,
    workspace: str,
    pipeline: Pipeline,
    *,
    now: datetime,
) -> datetime | None:
    """Return the start that alerting awaits next, workspace time, as metrics and page show it."""
    status = view.workspace(workspace)
    if status is None:
        return None
    identity = (workspace, _SCHEDULED_RUNS[pipeline.kind], pipeline.id)
    return alerting.expected_start(identity, now=status.time_there(now))


def encode(state: DaemonInfo | BridgeState) -> bytes:
    return _encoder.encode(state)


def _pipeline_of(
    pipeline_health: Iterable[PipelineHealth], active: Iterable[ActiveRun]
) -> Pipeline | None:
    for health in pipeline_health:
        return health.pipeline
    return next((active_run.run.pipeline for active_run in active), None)


def _last_run(end: RunEnd) -> LastRunData:
    return LastRunData(
        id=end.run_id,
        status=end.status,
        started_at=end.began_at,
        finished_at=end.at,
        duration_seconds=end.duration_seconds,
    )


def _last_success(pipeline_health: Iterable[PipelineHealth]) -> datetime | None:
    # The worst recipe speaks for the pipeline; one that never succeeded is worse than any.
    oldest: datetime | None = None
    for health in pipeline_health:
        if health.last_success_at is None:
            return None
        if oldest is None or health.last_success_at < oldest:
            oldest = health.last_success_at
    return oldest


def _listed(active: Iterable[ActiveRun], *, is_known: bool) -> tuple[ActiveRunData, ...]:
    # By id, so that the same runs always make the same payload.
    ordered = sorted(
        active, key=lambda active_run: (len(active_run.run.key.id), active_run.run.key.id)
    )
    return tuple(
        filled(
            ActiveRunData,
            active_run.run,
            id=active_run.run.key.id,
            status=active_run.run.status if is_known else "unknown",
            percent_complete=active_run.percent_complete,
            heartbeat_at=active_run.heartbeat_at,
        )
        for active_run in ordered[:ACTIVE_RUNS_LISTED]
    )
