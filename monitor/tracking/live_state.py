"""The present, in memory: written by the left side of the flow, read by the right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from monitor.model.alerts import Alert, AlertState
from monitor.model.live_state import (
    SCHEDULES,
    ActiveRun,
    NamedPipeline,
    PipelineHealth,
    PollStatus,
    Reachability,
    ReachabilityStretch,
    UnwatchedCause,
    WorkspaceStatus,
    unshared_pipelines,
)
from monitor.model.poll_outcomes import FAILED_OUTCOMES, STARVED_OUTCOMES
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState
from monitor.tracking.pipeline_directory import PipelineDirectory
from monitor.tracking.reachability_history import shown

_SCHEDULE = "schedule"  # the field of an alert that rests on a schedule
# The poll by which new runs of a kind, and changes of schedules, are seen.
WATCHED_BY: Mapping[str, str] = {
    RunKind.JOB_GROUP: "changes",
    RunKind.FLOW_RUN: "changes",
    RunKind.PLAN_RUN: "plan_runs",
    SCHEDULES: "schedules",
}
# What is read first, in words: the capability that it needs, and the poll that reads it.
FIRST_READS: Mapping[str, tuple[str, str]] = {
    "runs": ("list_changes", "changes"),
    "plan runs": ("list_plan_runs", "plan_runs"),
    "flows": ("list_flows", "names"),
    "schedules": ("read_schedules", "schedules"),
}
_FLOW_RUNS = "flow_runs"  # the poll that reads their ends
# Tries a workspace that is cut off as a whole, in the place of all other polls.
RECOVERY = "recovery"
HealthId = tuple[str, RunKind, str, str | None]  # workspace, run kind, pipeline, recipe


class ClockStep(Struct, frozen=True):
    """Our clock was set by ``step``; ``at`` is what it showed then."""

    at: datetime
    step: timedelta


class LiveStateView:
    """Reads what is known now. Every answer is a snapshot that no later change alters."""

    def __init__(self, live_state: LiveState) -> None:
        self._live_state = live_state

    def workspaces(self) -> tuple[WorkspaceStatus, ...]:
        """Return every configured workspace, in the order of the configuration."""
        return tuple(self._live_state.workspaces.values())

    def workspace(self, name: str) -> WorkspaceStatus | None:
        """Return one workspace, None where none of that name is configured."""
        return self._live_state.workspaces.get(name)

    def reachability_history(
        self, workspace: str, *, now: datetime, stale_after_seconds: float
    ) -> tuple[ReachabilityStretch, ...]:
        """Return how a workspace answered in the last seven days, without holes, oldest first.

        It begins with the first that is known. Times in which no daemon watched, and the time
        after a status older than ``stale_after_seconds``, are `Reachability.UNKNOWN`.
        """
        status = self._live_state.workspaces.get(workspace)
        if status is None:
            return ()
        stretches = self._live_state.reachability.get(workspace, ())
        stale_after = timedelta(seconds=stale_after_seconds)
        return shown(stretches, status, now=now, stale_after=stale_after)

    def active_runs(self, workspace: str | None = None) -> tuple[ActiveRun, ...]:
        """Return the runs that have not ended, in no particular order."""
        active = tuple(self._live_state.active.values())
        if workspace is None:
            return active
        return tuple(
            active_run for active_run in active if active_run.run.key.workspace == workspace
        )

    def active_run(self, key: RunKey) -> ActiveRun | None:
        """Return one run if it is known and has not ended."""
        return self._live_state.active.get(key)

    def pipeline_health(self) -> tuple[PipelineHealth, ...]:
        """Return what the last runs were like: one per pipeline, for job groups per recipe."""
        return tuple(self._live_state.pipeline_health.values())

    def pipelines(self) -> tuple[NamedPipeline, ...]:
        """Return every pipeline of the inventory and every one that a run has named."""
        return self._live_state.names.all()

    def label(self, workspace: str, pipeline: Pipeline | None) -> str:
        """Return the name that the pipeline's series carry; ``unknown`` where none is known."""
        return self._live_state.names.label(workspace, pipeline)

    def name_of(self, workspace: str, pipeline: Pipeline) -> str | None:
        """Return the present name of a pipeline, None where it is not known."""
        return self._live_state.names.name_of((workspace, pipeline.kind, pipeline.id))

    def named(self, workspace: str, kind: PipelineKind, label: str) -> str | None:
        """Return the id of the flow or plan with that label; None for one with an id in it."""
        return self._live_state.names.named(workspace, kind, label)

    def recipe_name(self, workspace: str, recipe_id: str) -> str | None:
        """Return the present name of a recipe, None where it is not known."""
        return self._live_state.recipe_names.get((workspace, recipe_id))

    def why_unwatched(self, workspace: str, what: str) -> str | None:
        """Return why nothing new is seen of a kind of run, or of `SCHEDULES`; None while it is."""
        status = self._live_state.workspaces.get(workspace)
        if status is not None and (why := status.why_unwatched(what)) is not None:
            return why
        poll = self._failing(workspace, what)
        if poll is None:
            return None
        name = "the workspace" if poll.poll == RECOVERY else poll.poll
        return f"{name} cannot be read ({poll.last_outcome})"

    def why_starved(self, workspace: str, *, monotonic: float) -> str | None:
        """Return which poll of runs is overdue for want of requests; None where there is none."""
        names = dict.fromkeys(WATCHED_BY[kind] for kind in RunKind)
        polls = (self._live_state.polls.get((workspace, name)) for name in names)
        return next(
            (
                f"{poll.poll} was not read in time ({poll.last_outcome})"
                for poll in polls
                if poll is not None
                and poll.last_outcome in STARVED_OUTCOMES
                and poll.is_overdue(monotonic)
            ),
            None,
        )

    def unseen(self) -> frozenset[tuple[object, str]]:
        """Return of what nothing new is seen, each with the reason: also of unshared pipelines.

        Where it is empty, every open alert can be judged.
        """
        unwatched = (
            ((name, what), why)
            for name in self._live_state.workspaces
            for what in WATCHED_BY
            if (why := self.why_unwatched(name, what)) is not None
        )
        return frozenset((*unwatched, *unshared_pipelines(self.workspaces()).items()))

    def why_unshared(self, workspace: str, pipeline: Pipeline | None) -> str | None:
        """Return why nothing new is seen of a flow or plan, None where it is shown to us."""
        status = self._live_state.workspaces.get(workspace)
        return None if status is None else status.why_unshared(pipeline)

    def is_unread(self, workspace: str, kind: RunKind) -> bool:
        """True while a kind of run cannot be read. A list that is doubted is read all the same."""
        status = self._live_state.workspaces.get(workspace)
        if status is not None and status.reachability is Reachability.UNREACHABLE:
            return True
        if status is not None and any(kind in cause.unwatched for cause in _undoubted(status)):
            return True
        return self._failing(workspace, kind) is not None

    def _failing(self, workspace: str, what: str) -> PollStatus | None:
        """Return the poll that fails now and by which a kind is seen; or that stands for all."""
        polls = self._live_state.polls
        names = (WATCHED_BY.get(what, ""), RECOVERY)
        found = (poll for name in names if (poll := polls.get((workspace, name))) is not None)
        return next((poll for poll in found if poll.last_outcome in FAILED_OUTCOMES), None)

    def unconfirmed_since(self, workspace: str, kind: RunKind) -> datetime | None:
        """Return since when active runs of a kind are not observed (our clock); else None.

        What was confirmed until then may have ended since.
        """
        status = self._live_state.workspaces.get(workspace)
        if status is None or not self.is_unread(workspace, kind):
            return None
        causes = [cause.since for cause in _undoubted(status) if kind in cause.unwatched]
        if status.reachability is Reachability.UNREACHABLE and status.since is not None:
            causes.append(status.since)
        poll = self._live_state.polls.get((workspace, WATCHED_BY[kind]))
        if poll is not None and self._failing(workspace, kind) is not None:
            causes.append(poll.last_success_at or poll.last_attempt_at)
        return max(causes, default=None)

    def time_of(self, alert: Alert, now: datetime) -> datetime:
        """Return our ``now`` by the clock of what the alert is about."""
        status = None if alert.is_by_our_clock else self.workspace(alert.workspace)
        return now if status is None else status.time_there(now)

    def first_reads(self, workspace: str) -> tuple[str, ...]:
        """Return what is read for the first time just now, and is unknown until then.

        Empty where all of it was read, also before this start. What cannot be read is not among
        it: see `why_unwatched` and `WorkspaceStatus.unreadable`.
        """
        status = self._live_state.workspaces.get(workspace)
        if status is None or status.history is None:
            return ()
        polls = self._live_state.polls
        reads = [
            words
            for words, (capability, name) in FIRST_READS.items()
            if capability in status.capabilities
            and ((poll := polls.get((workspace, name))) is None or poll.last_success_at is None)
            and (poll is None or poll.last_outcome not in FAILED_OUTCOMES)
        ]
        ends = polls.get((workspace, _FLOW_RUNS))
        is_stuck = status.unreadable and ends is not None and ends.last_outcome in FAILED_OUTCOMES
        follows = "follow_flow_runs" in status.capabilities and not is_stuck
        if follows and not reads and (workspace, RunKind.FLOW_RUN) not in self._live_state.complete:
            reads.append("flow runs")
        return tuple(reads)

    def why_unjudged(self, alert: Alert) -> str | None:
        """Return why it is unknown now whether an open alert is over; None while it is known."""
        status = self._live_state.workspaces.get(alert.workspace)
        if status is None or alert.state is AlertState.RESOLVED:
            return None
        needed: list[str] = [] if alert.kind is None else [alert.kind]
        if _SCHEDULE in alert.facts:
            needed.append(SCHEDULES)
        reasons = (self.why_unwatched(alert.workspace, what) for what in needed)
        unshared = status.why_unshared(alert.pipeline)
        return unshared or next((reason for reason in reasons if reason is not None), None)

    def knows(self, workspace: str, pipeline: Pipeline) -> bool:
        """True where the pipeline was listed, or named by a run, and not found to be gone."""
        return self._live_state.names.knows((workspace, pipeline.kind, pipeline.id))

    def place(self, workspace: str, pipeline: Pipeline) -> tuple[str | None, str | None]:
        """Return the folder and the owner of a pipeline, None where they are not known."""
        return self._live_state.names.place_of((workspace, pipeline.kind, pipeline.id))

    def polls(self) -> tuple[PollStatus, ...]:
        """Return how each poll of each workspace is doing."""
        return tuple(self._live_state.polls.values())

    def confirmed(self) -> dict[tuple[str, RunKind], datetime]:
        """Return when each kind of run was last confirmed by the API (our clock)."""
        return dict(self._live_state.confirmed)

    def complete(self) -> dict[tuple[str, RunKind], datetime]:
        """Return until when each kind of run is known wholly (workspace time).

        Every event of what happened until then is in the log already.
        """
        return dict(self._live_state.complete)


class LiveState:
    """What is known now. One event loop writes; nothing here waits, stores or keeps history."""

    def __init__(self, workspaces: Iterable[str]) -> None:
        self.workspaces = {name: WorkspaceStatus(workspace=name) for name in workspaces}
        self.active: dict[RunKey, ActiveRun] = {}
        self.pipeline_health: dict[HealthId, PipelineHealth] = {}
        self.polls: dict[tuple[str, str], PollStatus] = {}
        self.confirmed: dict[tuple[str, RunKind], datetime] = {}
        self.complete: dict[tuple[str, RunKind], datetime] = {}
        # By workspace, as of its last status that was stored.
        self.reachability: dict[str, tuple[ReachabilityStretch, ...]] = {}
        # By workspace: when it was last watched, as far as that was to be stored (our clock).
        self.watched_until: dict[str, datetime] = {}
        self.names = PipelineDirectory()
        self.recipe_names: dict[tuple[str, str], str] = {}  # by workspace and recipe
        self.clock_step: ClockStep | None = None  # the last one of our clock
        self.view = LiveStateView(self)

    def add_workspace(self, name: str) -> None:
        """Begin to know a workspace; one that is known keeps what is known of it."""
        self.workspaces.setdefault(name, WorkspaceStatus(workspace=name))

    def remove_workspace(self, name: str) -> None:
        """Forget a workspace that is no longer watched, with all that is its own."""
        self.workspaces.pop(name, None)
        self.reachability.pop(name, None)
        self.watched_until.pop(name, None)
        self.names.forget_workspace(name)
        for key in [key for key in self.active if key.workspace == name]:
            del self.active[key]
        for known in (
            self.pipeline_health,
            self.polls,
            self.confirmed,
            self.complete,
            self.recipe_names,
        ):
            _drop_workspace(known, name)

    def update_workspace(self, name: str, **changes: object) -> WorkspaceStatus:
        """Overwrite fields of one workspace's status and return the new one."""
        status = msgspec.structs.replace(self.workspaces[name], **changes)
        self.workspaces[name] = status
        return status

    def record_poll(self, status: PollStatus) -> None:
        self.polls[status.workspace, status.poll] = status

    def confirm(
        self,
        workspace: str,
        kind: RunKind,
        at: datetime,
        *,
        complete_at: datetime | None = None,
    ) -> None:
        """Remember that the API has shown all there was of one kind of run ``at`` (our clock).

        ``complete_at`` is the same instant by the workspace's clock; an earlier one than before is
        that of a slower poll.
        """
        self.confirmed[workspace, kind] = at
        before = self.complete.get((workspace, kind))
        if complete_at is not None and (before is None or complete_at > before):
            self.complete[workspace, kind] = complete_at

    def limit_complete(self, workspace: str, at: datetime) -> None:
        """Nothing is known beyond what the workspace's clock shows ``at`` present."""
        for kind, complete_at in self.complete.items():
            if kind[0] == workspace and complete_at > at:
                self.complete[kind] = at

    def retract(self, workspace: str, kind: RunKind, *, to: datetime | None) -> None:
        """Take back what was confirmed of a kind of run after ``to`` (our clock); None: ever."""
        at = self.confirmed.get((workspace, kind))
        if to is None:
            self.confirmed.pop((workspace, kind), None)
        elif at is not None and at > to:
            self.confirmed[workspace, kind] = to

    def name_pipeline(
        self, workspace: str, kind: PipelineKind, pipeline_id: str, name: str | None
    ) -> None:
        """Remember a pipeline and its present name; None keeps a name that is known."""
        self.names.name((workspace, kind, pipeline_id), name)

    def forget_pipeline(self, workspace: str, kind: PipelineKind, pipeline_id: str) -> None:
        """Drop a pipeline that the workspace no longer has."""
        self.names.forget((workspace, kind, pipeline_id))
        for identity in [
            identity
            for identity, status in self.pipeline_health.items()
            if identity[0] == workspace
            and identity[2] == pipeline_id
            and status.pipeline.kind is kind
        ]:
            del self.pipeline_health[identity]

    def running_pipelines(self, workspace: str) -> set[tuple[PipelineKind, str]]:
        """Return the pipelines of the runs that have not ended."""
        return {
            (active.run.pipeline.kind, active.run.pipeline.id)
            for key, active in self.active.items()
            if key.workspace == workspace and active.run.pipeline is not None
        }


def _undoubted(status: WorkspaceStatus) -> Iterator[UnwatchedCause]:
    return (cause for cause in status.unwatched_causes() if cause not in status.doubted)


def active_of(run: RunState) -> ActiveRun:
    """Return what is shown of a run that has not ended."""
    jobs = run.jobs
    return ActiveRun(
        run=run,
        confirmed_at=run.confirmed_at,
        confirmed_by=run.confirmed_by,
        percent_complete=jobs.percent_complete if jobs is not None else None,
        heartbeat_at=jobs.heartbeat_at if jobs is not None else None,
    )


def _drop_workspace(known: MutableMapping[Any, Any], name: str) -> None:
    for key in [key for key in known if key[0] == name]:
        del known[key]
