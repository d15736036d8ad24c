"""Computes the overview of all pipelines and runs from snapshots. Pure.

Nothing of it is kept up to date: `recent_overview.py` says when it is computed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeVar

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import Alert, AlertingSnapshot, LearnedLimit, PipelineOfKind, Severity
from monitor.model.live_state import (
    ActiveRun,
    NamedPipeline,
    PipelineHealth,
    WorkspaceStatus,
    unshared_pipelines,
)
from monitor.model.overall_health import overall_health
from monitor.model.runs import RUN_KINDS, PipelineKind, RunKey, RunKind, RunState
from monitor.model.silencing import Silenced, silenced_of
from monitor.web.views.overview.pipeline_state import (
    PipelineCondition,
    PipelineKey,
    PipelineRow,
    RunCell,
    is_firing,
    key_of_alert,
    state_of,
)
from monitor.web.views.runs.run_views import is_unconfirmed

K = TypeVar("K")
T = TypeVar("T")

_MOST_CHOICES = 100
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewSnapshots:
    """What is known at one instant. Nothing in it ever changes: a thread may read it."""

    now: datetime  # our clock
    stale_after_seconds: float
    workspaces: Mapping[str, WorkspaceStatus]
    pipelines: Sequence[NamedPipeline]
    healths: Sequence[PipelineHealth]
    active: Sequence[ActiveRun]
    alerting: AlertingSnapshot
    blind: Mapping[tuple[str, PipelineKind], str]  # why nothing new is seen of such pipelines
    starved: Mapping[str, str]  # by workspace: which poll of runs is overdue for want of requests
    confirmed_at: datetime | None  # our clock; all that can be seen was, since
    unconfirmed_since: Mapping[tuple[str, RunKind], datetime]  # as of `LiveStateView`


class ActiveRoot(NamedTuple):
    """An active run that is part of no other."""

    active: ActiveRun
    is_unconfirmed: bool  # it may have ended unseen
    limit: LearnedLimit | None  # of runs like it


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All pipelines and what runs, as of ``at`` (our clock)."""

    at: datetime
    confirmed_at: datetime | None  # our clock; all that can be seen was, since
    rows: Mapping[PipelineKey, PipelineRow]
    roots: Sequence[ActiveRoot]  # oldest first
    blind: Mapping[tuple[str, PipelineKind], str]
    starved: Mapping[str, str]
    states: Mapping[tuple[str, PipelineCondition], int]  # pipelines, by workspace
    running: int  # pipelines with an active run
    unconfirmed: int  # of ``roots``
    unreported: int  # pipelines that are failing and have no alert
    critical_alerts: int  # firing, whatever they are about
    silenced: Silenced
    other_alerts: Sequence[Alert]  # firing, about no pipeline or about none of the rows
    owners: tuple[str, ...]  # the hundred with the most pipelines, as are the folders
    folders: tuple[str, ...]
    # What is asked for beside it, once for all who look: rows in order by sort and filters, runs.
    selected: dict[tuple[str | None, ...], list[PipelineRow]] = field(default_factory=dict)
    strips: dict[PipelineOfKind, tuple[RunCell, ...]] = field(default_factory=dict)

    def count(self, state: PipelineCondition, workspace: str | None = None) -> int:
        """Return how many pipelines are in a state, of one workspace or of all."""
        return sum(
            number
            for (of, counted), number in self.states.items()
            if counted is state and workspace in (None, of)
        )


def overview_of(known: OverviewSnapshots) -> Overview:
    """Return what is shown of what is known."""
    limits = {
        (limit.workspace, limit.kind, limit.pipeline.id): limit for limit in known.alerting.limits
    }
    active = _ActiveRuns(known, limits)
    named = {(named.workspace, named.kind, named.id): named for named in known.pipelines}
    healths = _grouped(
        known.healths, key=lambda of: (of.workspace, of.pipeline.kind, of.pipeline.id)
    )
    alerts = _grouped(known.alerting.alerts, key=key_of_alert)
    build = _RowBuilder(known, active, limits)
    rows = {
        key: build.row(key, named.get(key), healths.get(key, ()), alerts.get(key, ()))
        for key in {**named, **healths}
        if key[0] in known.workspaces
    }
    firing = [alert for alert in known.alerting.alerts if is_firing(alert)]
    return Overview(
        at=known.now,
        confirmed_at=known.confirmed_at,
        rows=rows,
        roots=active.roots,
        blind=known.blind,
        starved=known.starved,
        states=Counter((row.workspace, row.state) for row in rows.values()),
        running=sum(row.active > 0 for row in rows.values()),
        unconfirmed=sum(root.is_unconfirmed for root in active.roots),
        unreported=sum(
            row.state is PipelineCondition.FAILING and not row.has_alert for row in rows.values()
        ),
        critical_alerts=sum(alert.severity is Severity.CRITICAL for alert in firing),
        silenced=silenced_of(
            known.alerting.silences,
            workspaces=known.workspaces,
            pipelines=((*key, row.pipeline) for key, row in rows.items()),
            now=known.now,
        ),
        other_alerts=[alert for alert in firing if key_of_alert(alert) not in rows],
        owners=_most_common(row.owner for row in rows.values()),
        folders=_most_common(row.folder for row in rows.values()),
    )


class _RowBuilder:
    """Makes rows of what is known of each pipeline."""

    def __init__(
        self,
        known: OverviewSnapshots,
        active: _ActiveRuns,
        limits: Mapping[PipelineOfKind, LearnedLimit],
    ) -> None:
        self._known = known
        self._active = active
        self._limits = limits
        self._unshared = unshared_pipelines(known.workspaces.values())

    def row(
        self,
        key: PipelineKey,
        named: NamedPipeline | None,
        healths: Sequence[PipelineHealth],
        alerts: Sequence[Alert],
    ) -> PipelineRow:
        workspace, kind, pipeline_id = key
        flow_runs = self._active.flow_runs.get(key, _NONE)
        health = overall_health(healths, is_active=flow_runs.__contains__)
        firing = [alert for alert in alerts if is_firing(alert)] if alerts else alerts
        unseen = self._unshared.get(key) or self._known.blind.get((workspace, kind))
        run_kind = _run_kind(kind, healths, has_flow_runs=bool(flow_runs))
        next_start, missed_starts = self._starts(key)
        parts = [part for part in healths if part.run_kind is RunKind.JOB_GROUP]
        return PipelineRow(
            workspace=workspace,
            kind=kind,
            pipeline_id=pipeline_id,
            pipeline=named.label if named is not None else _name_of(healths, pipeline_id),
            folder=named.folder if named is not None else None,
            owner=named.owner if named is not None else None,
            state=state_of(health, firing, is_blind=unseen is not None),
            unseen=unseen,
            run_kind=run_kind,
            active=self._active.of_pipeline[key],
            has_alert=bool(firing),
            expected_start_at=next_start,
            missed_starts=missed_starts,
            missed_alerts=tuple(
                [alert for alert in alerts if alert.rule == RuleKind.SCHEDULE_MISSED]
            ),
            limit=self._limits.get((workspace, run_kind, pipeline_id)),
            health=health,
            parts=tuple(sorted(parts, key=_recipe_of)),
        )

    def _starts(self, key: PipelineKey) -> tuple[datetime | None, int]:
        """Return when a pipeline is to start next, and how often it did not although it should."""
        workspace, kind, pipeline_id = key
        alerting, status = self._known.alerting, self._known.workspaces[workspace]
        of_kinds = [(workspace, run_kind, pipeline_id) for run_kind in RUN_KINDS[kind]]
        now = status.time_there(self._known.now)
        starts = [alerting.expected_start(of, now=now) for of in of_kinds]
        return (
            min((start for start in starts if start is not None), default=None),
            max(alerting.missed.get(of, 0) for of in of_kinds),
        )


class _ActiveRuns:
    """Which active runs are part of no other, and how many each pipeline has."""

    def __init__(
        self, known: OverviewSnapshots, limits: Mapping[PipelineOfKind, LearnedLimit]
    ) -> None:
        self.of_pipeline: Counter[PipelineKey] = Counter()  # without parts of flow runs
        self.flow_runs: defaultdict[PipelineKey, set[str]] = defaultdict(set)
        keys = {active.run.key for active in known.active}
        roots: list[ActiveRun] = []
        for active in known.active:
            run, key = active.run, active.run.key
            parents = [parent for parent in _parents_of(run) if parent in keys]
            if not parents:
                roots.append(active)
            if run.pipeline is not None:
                of = key.workspace, run.pipeline.kind, run.pipeline.id
                if RunKind.FLOW_RUN not in [parent.kind for parent in parents]:
                    self.of_pipeline[of] += 1
                if key.kind is RunKind.FLOW_RUN:
                    self.flow_runs[of].add(key.id)
        self.roots = [_root(active, known, limits) for active in sorted(roots, key=_begin)]


def _root(
    active: ActiveRun, known: OverviewSnapshots, limits: Mapping[PipelineOfKind, LearnedLimit]
) -> ActiveRoot:
    key, pipeline = active.run.key, active.run.pipeline
    may_have_ended = is_unconfirmed(
        active.confirmed_at,
        now=known.now,
        stale_after_seconds=known.stale_after_seconds,
        unconfirmed_since=known.unconfirmed_since.get((key.workspace, key.kind)),
    )
    limit = None if pipeline is None else limits.get((key.workspace, key.kind, pipeline.id))
    return ActiveRoot(active, may_have_ended, limit)


def _begin(active: ActiveRun) -> tuple[datetime, RunKey]:
    run = active.run
    return run.started_at or run.created_at or active.confirmed_at, run.key


def _parents_of(run: RunState) -> Sequence[RunKey]:
    workspace, parents = run.key.workspace, run.parents
    if parents.flow_run is None and parents.plan_run is None:  # as of most runs
        return ()
    of_kinds = ((RunKind.FLOW_RUN, parents.flow_run), (RunKind.PLAN_RUN, parents.plan_run))
    return [RunKey(workspace, kind, parent) for kind, parent in of_kinds if parent is not None]


def _run_kind(
    kind: PipelineKind, healths: Iterable[PipelineHealth], *, has_flow_runs: bool
) -> RunKind:
    """Return which runs are the pipeline's: flow runs where any is known, else job groups."""
    if kind is PipelineKind.PLAN:
        return RunKind.PLAN_RUN
    is_flow_run = has_flow_runs or any(of.run_kind is RunKind.FLOW_RUN for of in healths)
    return RunKind.FLOW_RUN if is_flow_run else RunKind.JOB_GROUP


def _grouped(values: Iterable[T], *, key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: defaultdict[K, list[T]] = defaultdict(list)
    for value in values:
        groups[key(value)].append(value)
    return groups


def _name_of(healths: Iterable[PipelineHealth], pipeline_id: str) -> str:
    names = (health.pipeline.name for health in healths if health.pipeline.name)
    return next(names, f"#{pipeline_id}")


def _recipe_of(health: PipelineHealth) -> str:
    return health.recipe_id or ""


def _most_common(values: Iterable[str | None]) -> tuple[str, ...]:
    counter = Counter(value for value in values if value is not None)
    return tuple(sorted(value for value, _ in counter.most_common(_MOST_CHOICES)))
