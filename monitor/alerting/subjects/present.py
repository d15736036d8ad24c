"""What is known at one moment, as the facts that conditions are asked with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from monitor.alerting.baselines import Learned, age_seconds, limit_seconds
from monitor.alerting.compiled import Rule
from monitor.alerting.conditions.daemon import parts
from monitor.alerting.facts import (
    DaemonFacts,
    FlowOrPlanFacts,
    OutputFacts,
    PipelineFacts,
    ScheduleFacts,
    TokenFacts,
    WorkspaceFacts,
)
from monitor.alerting.settings.defaults import minimum_of
from monitor.alerting.settings.rules import RuleKind
from monitor.alerting.subjects.outermost import Subjects, key_of, of_run, traits_of
from monitor.alerting.verdicts import About, Subject
from monitor.bus.contract import BusStanding, Retention
from monitor.model.beyond import OutputQuality
from monitor.model.knowledge import (
    ActiveRun,
    PipelineStanding,
    ScheduleKnown,
    WorkspaceStanding,
)
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind
from monitor.tracking.knowledge import KnowledgeView

log = structlog.get_logger()

_LEARNED = msgspec.json.Decoder(Learned)

Complete = Mapping[tuple[str, RunKind], datetime]
LearnedOf = Callable[[str], bytes | None]
PipelineId = tuple[PipelineKind, str]

# The kinds of run that execute them; what contains the other comes first.
KINDS = {
    PipelineKind.FLOW: (RunKind.FLOW_RUN, RunKind.JOB_GROUP),
    PipelineKind.PLAN: (RunKind.PLAN_RUN,),
}

# Judged by our own clock; all else by the workspace's, as far as it is known wholly.
OURS = frozenset({About.WORKSPACE, About.DAEMON, About.TOKEN, About.OUTPUT})


class Running(Struct, frozen=True, kw_only=True):
    """The active runs of one subject: those that are outermost its own, and all of the kind."""

    subject: Subject
    outer: tuple[ActiveRun, ...]
    own: tuple[ActiveRun, ...]


class Scheduled(Struct, frozen=True, kw_only=True):
    """One reading of a workspace's schedules: which of them start what, and what was deleted."""

    by_pipeline: dict[PipelineId, tuple[ScheduleKnown, ...]]
    deleted: frozenset[PipelineId]


class SchedulesByPipeline:
    """The schedules of each workspace by what they start, sorted once for each reading."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[tuple[ScheduleKnown, ...], Scheduled]] = {}

    def of(self, workspace: WorkspaceStanding) -> Scheduled:
        held = self._held.get(workspace.workspace)
        if held is not None and held[0] is workspace.schedules:
            return held[1]
        gathered: defaultdict[PipelineId, list[ScheduleKnown]] = defaultdict(list)
        for schedule in workspace.schedules:
            for one in schedule.starts:
                gathered[one.kind, one.id].append(schedule)
        found = Scheduled(
            by_pipeline={identity: tuple(schedules) for identity, schedules in gathered.items()},
            deleted=frozenset(
                (one.kind, one.id) for schedule in workspace.schedules for one in schedule.deleted
            ),
        )
        self._held[workspace.workspace] = workspace.schedules, found
        return found


class Present:
    """One moment. What is costly to gather is gathered when it is first asked for."""

    def __init__(
        self,
        view: KnowledgeView,
        subjects: Subjects,
        *,
        complete: Complete,
        now: datetime,
        wall_now: datetime,
        bus: BusStanding | None,
        retention: Retention,
        learned: LearnedOf,
        schedules: SchedulesByPipeline,
    ) -> None:
        """``now`` is ours as no jump of the wall clock moves it."""
        self.now = now
        self.wall_now = wall_now
        self._view = view
        self._subjects = subjects
        self.complete = complete
        self._bus = bus
        self._retention = retention
        self._learned = learned
        self._running: dict[str, Running] | None = None
        self._standings: dict[tuple[str, RunKind, str], list[PipelineStanding]] | None = None
        self._schedules = schedules
        self._schedules_by_id: dict[str, dict[str, ScheduleKnown]] = {}
        self._outputs: dict[str, dict[str, OutputQuality]] = {}

    @staticmethod
    def domain(subject: Subject) -> str:
        """Return the kind of run by whose lists the subject is judged; "" where by our clock."""
        if subject.about in OURS:
            return ""
        if subject.about is About.PIPELINE and subject.kind is not None:
            return subject.kind
        # Whatever starts a flow shows first by its job groups.
        is_plan = subject.pipeline is not None and subject.pipeline.kind is PipelineKind.PLAN
        return RunKind.PLAN_RUN if is_plan else RunKind.JOB_GROUP

    def as_of(self, subject: Subject) -> datetime | None:
        """Return how far the clock of what is judged is known; None where it is not now."""
        if subject.about in OURS:
            return self.now
        return self.complete.get((subject.workspace, RunKind(self.domain(subject))))

    def complete_of(self, workspace: str, kind: str) -> datetime | None:
        """Return how far one kind of run is known; of no kind, what our clock shows."""
        return self.complete.get((workspace, RunKind(kind))) if kind else self.now

    def vital(self) -> Iterator[Subject]:
        """Yield what is looked at in every round, because it may explain all else."""
        if self._bus is not None:
            for thing in parts(self._bus):
                yield Subject(about=About.DAEMON, thing=thing)
        for standing in self._view.workspaces():
            yield Subject(about=About.WORKSPACE, workspace=standing.workspace)

    def running(self) -> dict[str, Running]:
        """Return the subjects that have active runs, by key."""
        if self._running is None:
            self._running = self._find_running()
        return self._running

    def facts(self, rule: Rule, subject: Subject, *, is_heard: bool = False) -> Any:
        """Return what the rule's condition is to know of the subject; None if it is not there.

        What is heard tells itself what it is about: then active runs and standings are left out.
        """
        workspace = self._view.workspace(subject.workspace)
        if subject.about is About.DAEMON and self._bus is not None:
            return DaemonFacts(bus=self._bus, retention=self._retention, wall_now=self.wall_now)
        if workspace is None:
            return None
        if subject.about is About.PIPELINE:
            return PipelineFacts() if is_heard else self._pipeline(rule, subject)
        if subject.about is About.FLOW_OR_PLAN and subject.pipeline is not None:
            return self._flow_or_plan(rule, workspace, subject.pipeline, is_heard=is_heard)
        if subject.about is About.WORKSPACE:
            polls = tuple(one for one in self._view.polls() if one.workspace == subject.workspace)
            return WorkspaceFacts(standing=workspace, polls=polls)
        return self._thing(workspace, subject)

    def _thing(
        self, workspace: WorkspaceStanding, subject: Subject
    ) -> OutputFacts | ScheduleFacts | TokenFacts:
        if subject.about is About.OUTPUT:
            return OutputFacts(quality=self._outputs_of(workspace).get(subject.thing))
        if subject.about is About.SCHEDULE:
            schedule = self._schedule_of(workspace, subject.thing)
            return ScheduleFacts(schedule=schedule, read_at=workspace.schedules_read_at)
        tokens = workspace.beyond.tokens
        stamp = tokens.values.get(subject.thing) if tokens is not None else None
        return TokenFacts(
            expires_at=None if stamp is None else datetime.fromtimestamp(stamp, UTC),
            until=tokens.until if tokens is not None else None,
        )

    def _pipeline(self, rule: Rule, subject: Subject) -> PipelineFacts:
        running = self.running().get(key_of(subject))
        active: tuple[ActiveRun, ...] = ()
        if running is not None:
            active = running.own if rule.names_kind else running.outer
        match = rule.settings.match
        if active and (match.owner or match.trigger):
            active = tuple(
                one for one in active if rule.takes(traits_of(self._view, subject, one.run))
            )
        limit = None
        if rule.settings.rule is RuleKind.RUN_OVERDUE and active:
            learned = self._learned_of(subject.workspace, subject.kind, subject.pipeline)
            limit = limit_seconds(learned, minimum_runs=minimum_of(rule.settings))
        return PipelineFacts(
            standings=self._standings_of(subject),
            active=active,
            limit=limit,
        )

    def _flow_or_plan(
        self, rule: Rule, workspace: WorkspaceStanding, pipeline: Pipeline, *, is_heard: bool
    ) -> FlowOrPlanFacts:
        name = workspace.workspace
        kinds = KINDS[pipeline.kind]
        subjects = [of_run(RunKey(name, kind, ""), pipeline) for kind in kinds]
        identity = (pipeline.kind, pipeline.id)
        active: tuple[ActiveRun, ...] = ()
        standings: tuple[PipelineStanding, ...] = ()
        if not is_heard:
            running = [self.running().get(key_of(one)) for one in subjects]
            active = tuple(chain.from_iterable(one.own for one in running if one is not None))
            standings = tuple(chain.from_iterable(map(self._standings_of, subjects)))
        scheduled = self._schedules.of(workspace)
        return FlowOrPlanFacts(
            schedules=scheduled.by_pipeline.get(identity, ()),
            schedules_read_at=workspace.schedules_read_at,
            schedules_read_before=workspace.schedules_read_before,
            standings=standings,
            active=active,
            cadence=None if is_heard else self._cadence(rule, name, pipeline),
            is_deleted=identity in scheduled.deleted,
        )

    def _cadence(self, rule: Rule, workspace: str, pipeline: Pipeline) -> float | None:
        """Return the age of the last success that is too old; by the outermost kind of run."""
        if rule.settings.rule is not RuleKind.NOT_FRESH:
            return None
        least = minimum_of(rule.settings)
        for kind in KINDS[pipeline.kind]:
            learned = self._learned_of(workspace, kind, pipeline)
            age = age_seconds(learned, minimum_runs=least)
            if age is not None:
                return age
        return None

    def _learned_of(
        self, workspace: str, kind: RunKind | None, pipeline: Pipeline | None
    ) -> Learned | None:
        if kind is None or pipeline is None:
            return None
        return read_learned(self._learned(key_of(of_run(RunKey(workspace, kind, ""), pipeline))))

    def _outputs_of(self, workspace: WorkspaceStanding) -> dict[str, OutputQuality]:
        name = workspace.workspace
        if name not in self._outputs:
            self._outputs[name] = {one.id: one for one in workspace.beyond.outputs}
        return self._outputs[name]

    def _schedule_of(self, workspace: WorkspaceStanding, schedule_id: str) -> ScheduleKnown | None:
        name = workspace.workspace
        if name not in self._schedules_by_id:
            self._schedules_by_id[name] = {one.id: one for one in workspace.schedules}
        return self._schedules_by_id[name].get(schedule_id)

    def _standings_of(self, subject: Subject) -> tuple[PipelineStanding, ...]:
        if self._standings is None:
            self._standings = defaultdict(list)
            for one in self._view.standings():
                self._standings[one.workspace, one.run_kind, one.pipeline.id].append(one)
        if subject.kind is None or subject.pipeline is None:
            return ()
        identity = (subject.workspace, subject.kind, subject.pipeline.id)
        return tuple(self._standings.get(identity, ()))

    def _find_running(self) -> dict[str, Running]:
        subjects: dict[str, Subject] = {}
        outer: defaultdict[str, list[ActiveRun]] = defaultdict(list)
        own: defaultdict[str, list[ActiveRun]] = defaultdict(list)
        for one in self._view.active_runs():
            whose = self._subjects.outermost(one.run)
            for key, pipeline, gathered in (
                (whose.key, whose.pipeline, outer),
                (one.run.key, one.run.pipeline, own),
            ):
                subject = of_run(key, pipeline)
                subjects[key_of(subject)] = subject
                gathered[key_of(subject)].append(one)
        return {
            key: Running(subject=subject, outer=tuple(outer[key]), own=tuple(own[key]))
            for key, subject in subjects.items()
        }


def read_learned(value: bytes | None) -> Learned | None:
    """Return what was learned of a pipeline; what cannot be read is learned anew."""
    if value is None:
        return None
    try:
        return _LEARNED.decode(value)
    except (msgspec.MsgspecError, ValueError) as exc:
        log.warning("what was learned of a pipeline cannot be read", reason=str(exc))
        return None
