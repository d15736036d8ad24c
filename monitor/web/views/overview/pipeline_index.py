"""All pipelines with their state, sorted: the read model of the overview and of the sentence.

Kept as live state and alerting change: a refresh costs what has changed, not how many pipelines
there are. It is called before each read, and finds by itself what others have replaced.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import Alert, AlertState, LearnedLimit, PipelineOfKind, Severity
from monitor.model.live_state import NamedPipeline, PipelineHealth, unshared_pipelines
from monitor.model.overall_health import overall_health
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind
from monitor.model.slices import in_slices, sorted_in_slices
from monitor.web.views.overview.active_runs import ActiveRootRun, ActiveRuns
from monitor.web.views.overview.changed_values import changed_keys, changed_values
from monitor.web.views.overview.pipeline_rows import (
    RUN_KINDS,
    OrderKey,
    PipelineKey,
    PipelineRow,
    PipelineSort,
    key_of_alert,
    key_of_health,
    key_of_name,
    order_key,
)
from monitor.web.views.overview.pipeline_states import PipelineCondition, state_of
from monitor.web.views.sources import ViewSources

T = TypeVar("T")

_ROWS_AT_ONCE = 50
# By runs of which kind pipelines of a kind are watched.
_WATCHED = ((PipelineKind.FLOW, RunKind.JOB_GROUP), (PipelineKind.PLAN, RunKind.PLAN_RUN))


class PipelineIndex:
    """Rows by pipeline, sorted lists of them, and how many are in which state."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources
        self._lock = asyncio.Lock()
        self._rows: dict[PipelineKey, PipelineRow] = {}
        self._orders: dict[PipelineSort, list[OrderKey]] = {}
        self._named: tuple[NamedPipeline, ...] = ()
        self._healths: tuple[PipelineHealth, ...] = ()
        self._alerts: tuple[Alert, ...] = ()
        self._limits: tuple[LearnedLimit, ...] = ()
        self._expected: Mapping[PipelineOfKind, datetime] = {}
        self._active = ActiveRuns()
        self._names_of: dict[PipelineKey, NamedPipeline] = {}
        # By identity; under None what is about no pipeline.
        self._healths_of: defaultdict[PipelineKey | None, dict[int, PipelineHealth]]
        self._healths_of = defaultdict(dict)
        self._alerts_of: defaultdict[PipelineKey | None, dict[int, Alert]] = defaultdict(dict)
        self._in_workspace: defaultdict[tuple[str, PipelineKind], set[PipelineKey]]
        self._in_workspace = defaultdict(set)
        self._blind: dict[tuple[str, PipelineKind], str] = {}
        self._unshared: dict[PipelineKey, str] = {}
        self._workspaces: frozenset[str] = frozenset()
        self._without_row: set[PipelineKey] = set()  # that alerts are about, and nothing else
        self._touched: set[PipelineKey] = set()
        self.counts: Counter[tuple[str, PipelineCondition]] = Counter()  # by workspace and state
        self.owners: Counter[str] = Counter()
        self.folders: Counter[str] = Counter()
        self.confirmed_at: datetime | None = None  # our clock; all that can be seen was, since
        self.running = 0  # pipelines of which a run is active
        self.unreported = 0  # pipelines that are failing and have no alert
        self.critical_alerts = 0  # firing, whatever they are about
        self.limits: dict[PipelineOfKind, LearnedLimit] = {}  # learned
        self.version = 0  # grows with each change of a row

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: PipelineKey) -> PipelineRow | None:
        return self._rows.get(key)

    def blind(self) -> dict[tuple[str, PipelineKind], str]:
        """Return why nothing new is seen, by workspace and kind of pipeline."""
        return self._blind

    def why_unseen(self, workspace: str, pipeline: Pipeline) -> str | None:
        """Return why nothing new is seen of one pipeline, None where it is."""
        kind = pipeline.kind
        unshared = self._unshared.get((workspace, kind, pipeline.id))
        return unshared or self._blind.get((workspace, kind))

    def why_starved(self, workspace: str) -> str | None:
        """Return which poll of runs is overdue for want of requests; None where there is none."""
        monotonic = self._sources.clock.monotonic()
        return self._sources.live.why_starved(workspace, monotonic=monotonic)

    def other_alerts(self) -> list[Alert]:
        """Return the firing alerts that are about no pipeline, or about none of the rows."""
        keys: list[PipelineKey | None] = [None, *self._without_row]
        alerts = (alert for key in keys for alert in self._open_alerts(key))
        return [alert for alert in alerts if alert.state is AlertState.FIRING]

    @property
    def root_runs(self) -> Sequence[ActiveRootRun]:
        """The active runs that are part of no other, oldest first; a refresh changes it."""
        return self._active.roots

    async def unconfirmed_runs(self) -> int:
        """Return how many of ``root_runs`` may have ended unseen."""
        live, now = self._sources.live, self._sources.clock.now()
        stale = now - timedelta(seconds=self._sources.settings.stale_after_seconds)
        until = {
            (status.workspace, kind): max(stale, since)
            for status in live.workspaces()
            for kind in RunKind
            if (since := live.unconfirmed_since(status.workspace, kind)) is not None
        }
        if not until:
            return self._active.confirmed_before(stale)
        return sum(
            [
                root.active.confirmed_at <= until.get((root.key.workspace, root.key.kind), stale)
                async for root in in_slices(list(self.root_runs))
            ]
        )

    def missed_alerts(self, key: PipelineKey) -> list[Alert]:
        """Return the alerts about starts that never came: open, or ended within the last hour."""
        alerts = self._alerts_of.get(key, {}).values()
        return [alert for alert in alerts if alert.rule == RuleKind.SCHEDULE_MISSED]

    def _open_alerts(self, key: PipelineKey | None) -> list[Alert]:
        alerts = self._alerts_of.get(key, {}).values()
        return [alert for alert in alerts if alert.state is not AlertState.RESOLVED]

    def count(self, state: PipelineCondition, workspace: str | None = None) -> int:
        """Return how many pipelines are in a state, of one workspace or of all."""
        return sum(
            number
            for (of, counted), number in self.counts.items()
            if counted is state and workspace in (None, of)
        )

    async def refresh(self) -> None:
        """Follow what live state and alerting hold now.

        Whoever comes meanwhile waits for it. A cancelled call leaves the rest to the next.
        """
        async with self._lock:
            self._sources.clock.now()  # where it was set, what is followed here is moved first
            await self._follow_workspaces()
            await self._follow_names()
            await self._follow_healths()
            await self._follow_alerting()
            await self._active.follow(self._sources.live.active_runs(), self._touched)
            self._follow_sight()
            for number, key in enumerate(list(self._touched), 1):
                self._touched.discard(key)
                self._replace(key)
                if number % _ROWS_AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def sorted_keys(self, sort: PipelineSort) -> list[OrderKey]:
        """Return the sort keys of all pipelines in order; kept so from the first call on."""
        while sort not in self._orders:
            version = self.version
            rows = list(self._rows.values())
            keys = [order_key(sort, row) async for row in in_slices(rows)]
            ordered = await sorted_in_slices(keys, key=_itself)
            if version == self.version:  # else a row has changed meanwhile
                self._orders[sort] = ordered
        return self._orders[sort]

    async def _follow_workspaces(self) -> None:
        """Touch what is known of a workspace that has come or gone."""
        names = frozenset(status.workspace for status in self._sources.live.workspaces())
        changed = names ^ self._workspaces
        if changed:
            async for key in in_slices([*self._names_of, *self._healths_of]):
                if key is not None and key[0] in changed:
                    self._touched.add(key)
        self._workspaces = names

    async def _follow_names(self) -> None:
        named = self._sources.live.pipelines()
        gone, new = changed_values(self._named, named)
        async for pipeline in in_slices(gone):
            self._names_of.pop(key_of_name(pipeline), None)
            self._touched.add(key_of_name(pipeline))
        async for pipeline in in_slices(new):
            self._names_of[key_of_name(pipeline)] = pipeline
            self._touched.add(key_of_name(pipeline))
        self._named = named

    async def _follow_healths(self) -> None:
        healths = self._sources.live.pipeline_health()
        gone, new = changed_values(self._healths, healths)
        await self._move(self._healths_of, gone, new, key_of=key_of_health)
        self._healths = healths

    async def _follow_alerting(self) -> None:
        snapshot = self._sources.alerting.snapshot()
        for workspace, run_kind, pipeline_id in changed_keys(self._expected, snapshot.expected):
            kind = PipelineKind.PLAN if run_kind is RunKind.PLAN_RUN else PipelineKind.FLOW
            self._touched.add((workspace, kind, pipeline_id))
        self._expected = snapshot.expected
        gone_limits, new_limits = changed_values(self._limits, snapshot.limits)
        async for limit in in_slices(gone_limits):
            self.limits.pop(_key_of_limit(limit), None)
        async for limit in in_slices(new_limits):
            self.limits[_key_of_limit(limit)] = limit
        self._limits = snapshot.limits
        gone, new = changed_values(self._alerts, snapshot.alerts)
        await self._move(self._alerts_of, gone, new, key_of=key_of_alert)
        if gone or new:
            critical = 0
            async for alert in in_slices(snapshot.alerts):
                is_critical = alert.severity is Severity.CRITICAL
                critical += is_critical and alert.state is AlertState.FIRING
            self.critical_alerts = critical
        self._alerts = snapshot.alerts

    async def _move(
        self,
        values_of: defaultdict[PipelineKey | None, dict[int, T]],
        gone: Iterable[T],
        new: Iterable[T],
        *,
        key_of: Callable[[T], PipelineKey | None],
    ) -> None:
        """Put values where they belong, and touch their pipelines; again does no harm."""
        async for value in in_slices(gone):
            key = key_of(value)
            values_of[key].pop(id(value), None)
            if not values_of[key]:
                del values_of[key]
            if key is not None:
                self._touched.add(key)
        async for value in in_slices(new):
            key = key_of(value)
            values_of[key][id(value)] = value
            if key is not None:
                self._touched.add(key)

    def _follow_sight(self) -> None:
        """Notice which workspaces can be seen, and touch all pipelines where that has changed."""
        now, live = self._sources.clock.now(), self._sources.live
        confirmed, names = live.confirmed(), [status.workspace for status in live.workspaces()]
        blind: dict[tuple[str, PipelineKind], str] = {}
        seen: list[datetime] = []
        for name in names:
            for kind, run_kind in _WATCHED:
                at = confirmed.get((name, run_kind))
                why = live.why_unwatched(name, run_kind) or self._why_stale(at, now)
                if why is not None:
                    blind[name, kind] = why
                elif at is not None:
                    seen.append(at)
        for place in blind.keys() ^ self._blind.keys():
            self._touched |= self._in_workspace[place]
        unshared = unshared_pipelines(live.workspaces())
        self._touched |= unshared.keys() ^ self._unshared.keys()
        self._blind, self._unshared = blind, unshared
        self.confirmed_at = min(seen) if seen else max(confirmed.values(), default=None)

    def _why_stale(self, confirmed_at: datetime | None, now: datetime) -> str | None:
        if confirmed_at is None:
            return "its runs have not been read yet"
        seconds = (now - confirmed_at).total_seconds()
        is_stale = seconds > self._sources.settings.stale_after_seconds
        return "its runs were not confirmed for too long" if is_stale else None

    def _replace(self, key: PipelineKey) -> None:
        before, row = self._rows.get(key), self._row(key)
        if row is None and key in self._alerts_of:
            self._without_row.add(key)
        else:
            self._without_row.discard(key)
        if row == before:
            return
        if before is not None:
            del self._rows[key]
            self._count(before, -1)
        if row is not None:
            self._rows[key] = row
            self._count(row, 1)
            self._in_workspace[key[:2]].add(key)
        else:
            self._in_workspace[key[:2]].discard(key)
        for sort, keys in self._orders.items():
            _reorder(keys, sort, before, row)
        self.version += 1

    def _count(self, row: PipelineRow, step: int) -> None:
        self.counts[row.key[0], row.state] += step
        self.running += step * (row.active > 0)
        self.unreported += step * (row.state is PipelineCondition.FAILING and not row.has_alert)
        for counter, value in ((self.owners, row.owner), (self.folders, row.folder)):
            if value is not None:
                counter[value] += step
                if not counter[value]:
                    del counter[value]

    def _row(self, key: PipelineKey) -> PipelineRow | None:
        """Return the row of a pipeline, None where there is none any more."""
        workspace, kind, pipeline_id = key
        named, healths = self._names_of.get(key), list(self._healths_of.get(key, {}).values())
        if (named is None and not healths) or self._sources.live.workspace(workspace) is None:
            return None
        health = overall_health(healths, is_active=partial(self._is_active_flow_run, key))
        alerts = self._open_alerts(key)
        return PipelineRow(
            key=key,
            label=named.label if named is not None else _name_of(healths, pipeline_id),
            folder=named.folder if named is not None else None,
            owner=named.owner if named is not None else None,
            state=state_of(
                health, alerts, is_blind=(workspace, kind) in self._blind or key in self._unshared
            ),
            run_kind=self._run_kind(key, healths),
            active=self._active.of_pipeline[key],
            has_alert=any(alert.state is AlertState.FIRING for alert in alerts),
            next_start=self._next_start(key),
            health=health,
            parts=tuple(
                sorted(
                    (part for part in healths if part.run_kind is RunKind.JOB_GROUP),
                    key=_recipe_of,
                )
            ),
        )

    def _next_start(self, key: PipelineKey) -> datetime | None:
        workspace, kind, pipeline_id = key
        starts = (
            self._expected.get((workspace, run_kind, pipeline_id)) for run_kind in RUN_KINDS[kind]
        )
        return min((start for start in starts if start is not None), default=None)

    def _is_active_flow_run(self, key: PipelineKey, flow_run: str) -> bool:
        active = self._sources.live.active_run(RunKey(key[0], RunKind.FLOW_RUN, flow_run))
        # One whose flow is not known yet changes no row when it ends.
        pipeline = None if active is None else active.run.pipeline
        return pipeline is not None and pipeline.id == key[2]

    def _run_kind(self, key: PipelineKey, healths: Iterable[PipelineHealth]) -> RunKind:
        """Return which runs are the pipeline's: flow runs where any is known, else job groups."""
        if key[1] is PipelineKind.PLAN:
            return RunKind.PLAN_RUN
        has_flow_runs = any(health.run_kind is RunKind.FLOW_RUN for health in healths)
        is_flow_run = has_flow_runs or key in self._active.flow_runs
        return RunKind.FLOW_RUN if is_flow_run else RunKind.JOB_GROUP


def _reorder(
    keys: list[OrderKey], sort: PipelineSort, before: PipelineRow | None, row: PipelineRow | None
) -> None:
    if before is not None:
        del keys[bisect_left(keys, order_key(sort, before))]
    if row is not None:
        insort(keys, order_key(sort, row))


def _key_of_limit(limit: LearnedLimit) -> PipelineOfKind:
    return limit.workspace, limit.kind, limit.pipeline.id


def _name_of(healths: Iterable[PipelineHealth], pipeline_id: str) -> str:
    names = (health.pipeline.name for health in healths if health.pipeline.name)
    return next(names, f"#{pipeline_id}")


def _recipe_of(health: PipelineHealth) -> str:
    return health.recipe_id or ""


def _itself(key: T) -> T:
    return key
