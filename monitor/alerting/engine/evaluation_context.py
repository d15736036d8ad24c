"""The context of one step: its time, what is known then, and its changes so far.

Rules get what is known as the facts of their subject.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Protocol

from msgspec import Struct

from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.pending_step import FIRST, LEARNED, FirstEvaluated, PendingStep
from monitor.alerting.attribution.attribution import Lineage, is_of_a_plan
from monitor.alerting.attribution.subjects import first_key, key_of, of_run, traits_of
from monitor.alerting.engine.removed_subjects import RemovedSubjects
from monitor.alerting.engine.suppression import Suppression, changes_suppression, suppression_of
from monitor.alerting.rules.baselines import (
    Learned,
    age_seconds,
    limit_seconds,
    usual_seconds,
)
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import (
    DaemonFacts,
    FlowOrPlanFacts,
    OutputFacts,
    PipelineFacts,
    ScheduleFacts,
    Subject,
    SubjectKind,
    TokenFacts,
    WorkspaceFacts,
)
from monitor.alerting.rules.monitor_degraded import parts
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.bus.contract import Retention, StoreStatus
from monitor.model.alerts import DaemonCondition
from monitor.model.inventory import OutputQuality
from monitor.model.live_state import (
    REFRESH_TOKEN,
    ActiveRun,
    PipelineHealth,
    ScheduleKnown,
    TokenStatus,
    WorkspaceStatus,
)
from monitor.model.runs import RUN_KINDS, Pipeline, PipelineKind, RunKey, RunKind
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveStateView


class LearnedNumber(Protocol):
    """Returns a number that was learned, None below so many runs."""

    def __call__(self, learned: Learned | None, *, minimum_runs: int) -> float | None: ...


Complete = Mapping[tuple[str, RunKind], datetime]
PipelineId = tuple[PipelineKind, str]
_HealthKey = tuple[str, RunKind, str]
_RUNS_AT_ONCE = 50  # of all active ones, up to 40,000 at 20 us

# Evaluated by our own clock; all else by the workspace's, until when everything is known.
OURS = frozenset({SubjectKind.WORKSPACE, SubjectKind.DAEMON, SubjectKind.TOKEN, SubjectKind.OUTPUT})


class ActiveRunsOfSubject(Struct, frozen=True, kw_only=True):
    """``roots``: those whose root run is of the subject; ``own``: those that are themselves."""

    subject: Subject
    roots: tuple[ActiveRun, ...]
    own: tuple[ActiveRun, ...]


class SchedulesRead(Struct, frozen=True, kw_only=True):
    """One read of a workspace's schedules: which of them start what, and what was deleted."""

    by_id: dict[str, ScheduleKnown]
    by_pipeline: dict[PipelineId, tuple[ScheduleKnown, ...]]
    deleted: frozenset[PipelineId]


class ScheduleIndex:
    """The schedules of each workspace, indexed once for each read."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[tuple[ScheduleKnown, ...], SchedulesRead]] = {}

    def of(self, workspace: WorkspaceStatus) -> SchedulesRead:
        cached = self._cached.get(workspace.workspace)
        if cached is not None and cached[0] is workspace.schedules:
            return cached[1]
        gathered: defaultdict[PipelineId, list[ScheduleKnown]] = defaultdict(list)
        for schedule in workspace.schedules:
            for start in schedule.starts:
                gathered[start.kind, start.id].append(schedule)
        found = SchedulesRead(
            by_id={schedule.id: schedule for schedule in workspace.schedules},
            by_pipeline={identity: tuple(schedules) for identity, schedules in gathered.items()},
            deleted=frozenset(
                (pipeline.kind, pipeline.id)
                for schedule in workspace.schedules
                for pipeline in schedule.deleted
            ),
        )
        self._cached[workspace.workspace] = workspace.schedules, found
        return found


class EvaluationContext:
    """One step of the engine. Costly facts are gathered when they are first used."""

    def __init__(
        self,
        pending: PendingStep,
        *,
        view: LiveStateView,
        lineage: Lineage,
        firing: FiringRuns,
        suppression: Suppression,
        schedules: ScheduleIndex,
        retention: Retention,
        complete: Complete,
        now: datetime,
        wall_now: datetime,
        monotonic: float,
        store: StoreStatus | None,
        condition: DaemonCondition,
    ) -> None:
        """``suppression`` is by the committed state; ``store`` None: only events are evaluated."""
        self.pending = pending
        self.firing = firing
        self.running: dict[str, ActiveRunsOfSubject] = {}  # subjects with active runs, by key
        self._at_work: frozenset[RunKey] = frozenset()  # some of them may have ended
        self._pipeline_health: defaultdict[_HealthKey, list[PipelineHealth]] = defaultdict(list)
        self.suppression = suppression
        self.complete = complete
        self.now = now  # our steady clock, which no jump of the wall clock moves
        self.wall_now = wall_now
        self.monotonic = monotonic
        self._view = view
        self._lineage = lineage
        self._schedules = schedules
        self._retention = retention
        self._store = store
        self._condition = condition
        self._outputs: dict[str, dict[str, OutputQuality]] = {}
        self._removed: RemovedSubjects | None = None

    def renew_suppression(self) -> None:
        """Let the changes of this step suppress alerts as well."""
        if changes_suppression(self.pending):
            self.suppression = suppression_of(self.pending, self.firing)

    def first_evaluated_at(self, rule: Rule, subject: Subject) -> datetime | None:
        """Return when the rule was first evaluated by state for such subjects; None: never."""
        key = first_key(rule.settings.name, subject.workspace, domain_of(subject))
        first: FirstEvaluated | None = self.pending.get(FIRST, key)
        return None if first is None else first.at

    def as_of(self, subject: Subject) -> datetime | None:
        """Return until when everything is known by the subject's clock; None: not known now."""
        if subject.subject_kind in OURS:
            return self.now
        return self.complete.get((subject.workspace, RunKind(domain_of(subject))))

    def complete_of(self, workspace: str, kind: str) -> datetime | None:
        """Return until when one kind of run is known; ``kind`` "": our clock."""
        return self.complete.get((workspace, RunKind(kind))) if kind else self.now

    def vital_subjects(self) -> Iterator[Subject]:
        """Yield what is evaluated in every cycle, because it may inhibit all else."""
        if self._store is not None:
            for part in parts(self._store, self._condition):
                yield Subject(subject_kind=SubjectKind.DAEMON, thing=part)
        for status in self._view.workspaces():
            yield Subject(subject_kind=SubjectKind.WORKSPACE, workspace=status.workspace)

    async def gather_runs(self) -> None:
        """Gather the active runs by subject, and those around another one, known or possible."""
        subjects: dict[str, Subject] = {}
        roots: defaultdict[str, list[ActiveRun]] = defaultdict(list)
        own: defaultdict[str, list[ActiveRun]] = defaultdict(list)
        plan_runs: list[RunKey] = []
        around: set[RunKey] = set()
        unlinked: set[str] = set()
        async for run in in_slices(self._view.active_runs(), size=_RUNS_AT_ONCE):
            subject = of_run(run.run.key, run.run.pipeline)
            key = root_key = key_of(subject)
            if len(line := self._lineage.line(run.run)) > 1:
                around.update(part.key for part in line[1:])
                root = of_run(line[-1].key, line[-1].pipeline)
                root_key = key_of(root)
                subjects[root_key] = root
            subjects[key] = subject
            roots[root_key].append(run)
            own[key].append(run)
            if run.run.key.kind is RunKind.PLAN_RUN:
                plan_runs.append(run.run.key)
            elif is_of_a_plan(run.run) and run.run.parents.plan_run is None:
                # Its plan run may stay unknown: the plan's record may be refused to us.
                unlinked.add(run.run.key.workspace)
        around.update(key for key in plan_runs if key.workspace in unlinked)
        self._at_work = frozenset(around)
        async for key, subject in in_slices(subjects.items()):  # thousands, each with its runs
            self.running[key] = ActiveRunsOfSubject(
                subject=subject, roots=tuple(roots[key]), own=tuple(own[key])
            )

    async def gather_health(self) -> None:
        """Gather the health of all pipelines, by which flows and plans as such are evaluated."""
        async for health in in_slices(self._view.pipeline_health()):  # 10,000 and more
            key = health.workspace, health.run_kind, health.pipeline.id
            self._pipeline_health[key].append(health)

    def why_unshared(self, subject: Subject) -> str | None:
        """Return why no runs of the subject are seen, None where they are shown to us."""
        if subject.subject_kind not in (SubjectKind.PIPELINE, SubjectKind.FLOW_OR_PLAN):
            return None
        return self._view.why_unshared(subject.workspace, subject.pipeline)

    def facts_of(self, rule: Rule, subject: Subject) -> Any:
        """Return the facts of the subject for the rule; None if the subject does not exist."""
        if subject.subject_kind is SubjectKind.DAEMON and self._store is not None:
            return DaemonFacts(
                bus=self._store, retention=self._retention, condition=self._condition
            )
        workspace = self._view.workspace(subject.workspace)
        if workspace is None:
            return None
        if subject.subject_kind is SubjectKind.PIPELINE:
            return self._pipeline(rule, subject)
        if subject.subject_kind is SubjectKind.FLOW_OR_PLAN and subject.pipeline is not None:
            return self._flow_or_plan(rule, workspace, subject.pipeline)
        if subject.subject_kind is SubjectKind.WORKSPACE:
            polls = tuple(
                poll for poll in self._view.polls() if poll.workspace == subject.workspace
            )
            late = frozenset(poll.poll for poll in polls if poll.is_overdue(self.monotonic))
            return WorkspaceFacts(status=workspace, polls=polls, late=late)
        return self._thing(workspace, subject)

    def _thing(
        self, workspace: WorkspaceStatus, subject: Subject
    ) -> OutputFacts | ScheduleFacts | TokenFacts:
        if subject.subject_kind is SubjectKind.OUTPUT:
            if workspace.workspace not in self._outputs:
                outputs = {output.id: output for output in workspace.inventory.outputs}
                self._outputs[workspace.workspace] = outputs
            return OutputFacts(quality=self._outputs[workspace.workspace].get(subject.thing))
        if subject.subject_kind is SubjectKind.SCHEDULE:
            schedule = self._schedules.of(workspace).by_id.get(subject.thing)
            return ScheduleFacts(schedule=schedule, read_at=workspace.schedules_read_at)
        if subject.thing.partition("/")[0] == REFRESH_TOKEN:
            return _refreshed(workspace.token, subject.thing)
        tokens = workspace.inventory.tokens
        stamp = tokens.values.get(subject.thing) if tokens is not None else None
        created = workspace.inventory.tokens_created.get(subject.thing)
        return TokenFacts(
            expires_at=None if stamp is None else datetime.fromtimestamp(stamp, UTC),
            created_at=None if created is None else datetime.fromtimestamp(created, UTC),
            until=tokens.until if tokens is not None else None,
        )

    def _pipeline(self, rule: Rule, subject: Subject) -> PipelineFacts:
        running = self.running.get(key_of(subject))
        active: tuple[ActiveRun, ...] = ()
        if running is not None:
            active = running.own if rule.names_kind else running.roots
        match = rule.settings.match
        if active and (match.owner or match.trigger):
            active = tuple(
                run for run in active if rule.matches(traits_of(self._view, subject, run.run))
            )
        limit = None
        if rule.settings.rule is RuleKind.RUN_OVERDUE and active:
            learned = self._learned_of(subject.workspace, subject.kind, subject.pipeline)
            limit = limit_seconds(learned, minimum_runs=rule.settings.minimum)
        at_work = self._at_work if active else frozenset()
        return PipelineFacts(active=active, limit=limit, at_work=at_work)

    def _flow_or_plan(
        self, rule: Rule, workspace: WorkspaceStatus, pipeline: Pipeline
    ) -> FlowOrPlanFacts:
        name = workspace.workspace
        kinds = RUN_KINDS[pipeline.kind]
        subjects = [of_run(RunKey(name, kind, ""), pipeline) for kind in kinds]
        identity = (pipeline.kind, pipeline.id)
        running = [self.running.get(key_of(subject)) for subject in subjects]
        scheduled = self._schedules.of(workspace)
        return FlowOrPlanFacts(
            schedules=scheduled.by_pipeline.get(identity, ()),
            schedules_read_at=workspace.schedules_read_at,
            schedules_read_before=workspace.schedules_read_before,
            pipeline_health=tuple(chain.from_iterable(map(self._health_of, subjects))),
            active=tuple(
                chain.from_iterable(subject.own for subject in running if subject is not None)
            ),
            cadence=self._cadence(rule, name, pipeline),
            usual_seconds=self._usual_seconds(rule, name, pipeline),
            ends_known_until=min(
                (self.complete[name, kind] for kind in kinds if (name, kind) in self.complete),
                default=None,
            ),
            is_deleted=identity in scheduled.deleted or self._is_removed(name, pipeline),
        )

    def _is_removed(self, workspace: str, pipeline: Pipeline) -> bool:
        if self._removed is None:
            self._removed = RemovedSubjects(self._view)
        return self._removed.reason(workspace, pipeline) is not None

    def _cadence(self, rule: Rule, workspace: str, pipeline: Pipeline) -> float | None:
        """Return the age at which the last success is too old; by the containing kind of run."""
        if rule.settings.rule is not RuleKind.NOT_FRESH:
            return None
        return self._learned_by_kind(age_seconds, rule, workspace, pipeline)

    def _usual_seconds(self, rule: Rule, workspace: str, pipeline: Pipeline) -> float | None:
        """Return how long a run usually takes; by the containing kind of run."""
        if rule.settings.rule is not RuleKind.DEADLINE_AT_RISK:
            return None
        return self._learned_by_kind(usual_seconds, rule, workspace, pipeline)

    def _learned_by_kind(
        self, learned_of: LearnedNumber, rule: Rule, workspace: str, pipeline: Pipeline
    ) -> float | None:
        numbers = (
            learned_of(
                self._learned_of(workspace, kind, pipeline), minimum_runs=rule.settings.minimum
            )
            for kind in RUN_KINDS[pipeline.kind]
        )
        return next((number for number in numbers if number is not None), None)

    def _learned_of(
        self, workspace: str, kind: RunKind | None, pipeline: Pipeline | None
    ) -> Learned | None:
        if kind is None or pipeline is None:
            return None
        key = key_of(of_run(RunKey(workspace, kind, ""), pipeline))
        return self.pending.decoded(LEARNED, key, Learned)

    def _health_of(self, subject: Subject) -> tuple[PipelineHealth, ...]:
        if subject.kind is None or subject.pipeline is None:
            return ()
        key = (subject.workspace, subject.kind, subject.pipeline.id)
        return tuple(self._pipeline_health.get(key, ()))


def domain_of(subject: Subject) -> str:
    """Return the kind of run by whose lists the subject is evaluated; "" where by our clock."""
    if subject.subject_kind in OURS:
        return ""
    if subject.subject_kind is SubjectKind.PIPELINE and subject.kind is not None:
        return subject.kind
    # Whatever starts a flow shows first by its job groups.
    is_plan = subject.pipeline is not None and subject.pipeline.kind is PipelineKind.PLAN
    return RunKind.PLAN_RUN if is_plan else RunKind.JOB_GROUP


def _refreshed(token: TokenStatus | None, thing: str) -> TokenFacts:
    """Return what is known of the pair that the daemon refreshes itself; it is never old."""
    until = datetime.max.replace(tzinfo=UTC)
    if token is not None and thing == REFRESH_TOKEN:
        return TokenFacts(expires_at=token.pair_expires_at, until=until)
    trouble = None if token is None else token.trouble
    if token is None or trouble is None or trouble.kind.token_id != thing:
        return TokenFacts(expires_at=None, until=until)
    return TokenFacts(expires_at=token.expires_at, until=until, trouble=trouble)
