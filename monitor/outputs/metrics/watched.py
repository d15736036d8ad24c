"""The families of what is watched, made from one snapshot. Pure, but for the texts it fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

from monitor.model.live_state import PipelineHealth, Reachability, unshared_pipelines
from monitor.model.overall_health import newest_of
from monitor.model.runs import RunKind, Status, Trigger
from monitor.outputs.freshness import UNSEEN_FACTOR, knows_what_runs
from monitor.outputs.metrics import families
from monitor.outputs.metrics.alert_metrics import learned_families
from monitor.outputs.metrics.counter_rows import (
    DURATION_BOUNDS,
    QUEUE_BOUNDS,
    Buckets,
    JobCounts,
    QueueCounts,
)
from monitor.outputs.metrics.exposition_cache import ExpositionPage, FamilyText
from monitor.outputs.metrics.family_shapes import FamilyShape
from monitor.outputs.metrics.inventory_metrics import inventory_families
from monitor.outputs.metrics.labels import pipeline_of, schedule_labels_of
from monitor.outputs.metrics.metrics_snapshot import MetricsSnapshot
from monitor.outputs.metrics.series_budget import SeriesGroup, SeriesLayout

_ACTIVE = (Status.PENDING, Status.RUNNING)
# Of several recipes the newest end is the last one. A state, and how old the last success is,
# follow the worst of them.
_Choice = Callable[[list[float]], float] | None  # None: of the newest end alone
# From best to worst.
_RESULTS = (Status.SUCCEEDED, Status.CANCELED, Status.LOST, Status.FAILED)
_JOB_RESULTS = (Status.SUCCEEDED, Status.FAILED, Status.CANCELED)


def watched_families(
    snapshot: MetricsSnapshot,
    layout: SeriesLayout,
    page: ExpositionPage,
    *,
    stale_after_seconds: float,
    capabilities: Sequence[str],
) -> Iterator[FamilyText]:
    """Yield what is watched, in the order of the page, each family when it is complete."""
    yield from _workspaces(snapshot, page, capabilities, stale_after_seconds)
    yield from _inventory(snapshot, layout, page)
    yield from _counters(layout.groups, page)
    yield _durations(layout.groups, page)
    yield _waits(snapshot, page)
    yield _jobs(snapshot, page)
    yield from _present(snapshot, layout, page, stale_after_seconds)
    yield from _last_runs(layout.groups, page)
    yield from learned_families(snapshot, layout.own, page)
    yield from inventory_families(layout.inventory, page)


def _workspaces(
    snapshot: MetricsSnapshot,
    page: ExpositionPage,
    capabilities: Sequence[str],
    stale_after_seconds: float,
) -> Iterator[FamilyText]:
    known_since = snapshot.now - timedelta(seconds=stale_after_seconds)
    up, skew = page.family_text(families.WORKSPACE_UP), page.family_text(families.CLOCK_SKEW)
    capability = page.family_text(families.CAPABILITY)
    history = page.family_text(families.HISTORY_READ)
    refused = page.family_text(families.CAPABILITY_REFUSED)
    unshared = page.family_text(families.UNSHARED_PIPELINES)
    for workspace in snapshot.workspaces:
        is_old = workspace.known_at is None or workspace.known_at < known_since
        is_unasked = workspace.is_remembered and is_old
        if workspace.reachability is not Reachability.UNKNOWN and not is_unasked:
            up.add(
                (workspace.workspace,),
                workspace.reachability is not Reachability.UNREACHABLE,
            )
            unshared.add((workspace.workspace,), len(workspace.unshared))
        if workspace.clock_skew_seconds is not None:
            skew.add((workspace.workspace,), workspace.clock_skew_seconds)
        if workspace.history is not None and not workspace.history.is_over:
            history.add((workspace.workspace,), workspace.history.reached.timestamp())
        for word in (
            sorted({*capabilities, *workspace.capabilities})
            if workspace.edition is not None
            else ()
        ):
            capability.add((workspace.workspace, word), word in workspace.capabilities)
        for known in workspace.refused:
            refused.add((workspace.workspace, known.capability), known.since.timestamp())
    yield from (up, skew, history, capability, refused, unshared)
    live_state = page.family_text(families.LIVE_STATE)
    for (name, kind), at in sorted(snapshot.confirmed.items()):
        live_state.add((name, kind), at.timestamp())
    yield live_state


def _inventory(
    snapshot: MetricsSnapshot, layout: SeriesLayout, page: ExpositionPage
) -> Iterator[FamilyText]:
    labels = {
        workspace.workspace: schedule_labels_of(workspace.schedules)
        for workspace in snapshot.workspaces
    }
    starters: dict[tuple[str, str, str], list[str]] = {}
    for workspace in snapshot.workspaces:
        for schedule in workspace.schedules:
            label = labels[workspace.workspace][schedule.id]
            for started in schedule.pipelines:
                key = (workspace.workspace, started.kind, started.id)
                starters.setdefault(key, []).append(label)
    info = page.family_text(families.PIPELINE_INFO)
    for pipeline, label in layout.pipelines:
        names = ", ".join(
            sorted(starters.get((pipeline.workspace, pipeline.kind, pipeline.id), ()))
        )
        info.add((pipeline.workspace, label, pipeline.kind.value, pipeline.id, names), 1)
    yield info
    enabled = page.family_text(families.SCHEDULE_ENABLED)
    for name, schedule in layout.schedules:
        enabled.add((name, labels[name][schedule.id]), schedule.is_enabled)
    yield enabled


def _counters(groups: Sequence[SeriesGroup], page: ExpositionPage) -> Iterator[FamilyText]:
    started = page.spread(families.RUNS_STARTED, list(Trigger), exemplars="started")
    for group in groups:
        begun = group.counts.started if group.counts is not None else {}
        started.add(
            _labels(group), *(begun.get(trigger, 0) for trigger in Trigger), seen=group.seen
        )
    yield started
    ended = page.spread(families.RUNS, _RESULTS, exemplars="ended")
    for group in groups:
        ends = group.counts.ended if group.counts is not None else {}
        ended.add(_labels(group), *(ends.get(result, 0) for result in _RESULTS), seen=group.seen)
    yield ended
    corrected = page.family_text(families.RUNS_CORRECTED)
    for group in groups:
        for claim, by_true_end in (
            group.counts.corrected if group.counts is not None else {}
        ).items():
            for true_end, count in by_true_end.items():
                corrected.add((*_labels(group), claim.value, true_end.value), count)
    yield corrected


def _durations(groups: Sequence[SeriesGroup], page: ExpositionPage) -> FamilyText:
    family_text = page.histogram(families.RUN_DURATION, DURATION_BOUNDS, exemplars="duration")
    for group in groups:
        # A pipeline that was never counted has no histogram: it would only cost series.
        if group.counts is not None:
            family_text.add(_labels(group), *_amounts(group.counts.durations), seen=group.seen)
    return family_text


def _waits(snapshot: MetricsSnapshot, page: ExpositionPage) -> FamilyText:
    family_text = page.histogram(families.RUN_QUEUE, QUEUE_BOUNDS, exemplars="queue")
    rows = {key: row for key, row in snapshot.rows.items() if isinstance(row, QueueCounts)}
    # What the API lists is known before its first run. No flow run ever reports its start.
    for workspace, kind in snapshot.confirmed:
        if kind is not RunKind.FLOW_RUN:
            fresh = QueueCounts(workspace=workspace, kind=kind)
            rows.setdefault(fresh.key, fresh)
    configured = {workspace.workspace for workspace in snapshot.workspaces}
    for key, row in sorted(rows.items()):
        if row.workspace in configured:
            seen = snapshot.seen.get(key, {})
            family_text.add((row.workspace, row.kind), *_amounts(row.waits), seen=seen)
    return family_text


def _jobs(snapshot: MetricsSnapshot, page: ExpositionPage) -> FamilyText:
    family_text = page.spread(families.JOBS, _JOB_RESULTS, exemplars="ended")
    rows = [row for row in snapshot.rows.values() if isinstance(row, JobCounts)]
    configured = {workspace.workspace for workspace in snapshot.workspaces}
    for row in sorted(rows, key=lambda counts: counts.key):
        if row.workspace in configured:
            ends = (row.ended.get(job_result, 0) for job_result in _JOB_RESULTS)
            family_text.add(
                (row.workspace, row.job_type), *ends, seen=snapshot.seen.get(row.key, {})
            )
    return family_text


def _unshared(snapshot: MetricsSnapshot, layout: SeriesLayout) -> set[tuple[str, RunKind, str]]:
    """Return the series of unshared pipelines: workspace, kind of run, label."""
    hidden = unshared_pipelines(snapshot.workspaces)
    return {
        (identity.workspace, identity.kind, label)
        for identity, label in (layout.own.items() if hidden else ())
        if pipeline_of(identity) in hidden
    }


def _present(
    snapshot: MetricsSnapshot,
    layout: SeriesLayout,
    page: ExpositionPage,
    stale_after_seconds: float,
) -> Iterator[FamilyText]:
    unshared = _unshared(snapshot, layout)
    active = page.spread(families.RUNS_ACTIVE, _ACTIVE)
    oldest = page.family_text(families.OLDEST_ACTIVE)
    known_since = snapshot.now - timedelta(seconds=stale_after_seconds)
    seen_since = snapshot.now - UNSEEN_FACTOR * timedelta(seconds=stale_after_seconds)
    statuses = {status.workspace: status for status in snapshot.workspaces}
    for group in layout.groups:
        if not knows_what_runs(
            statuses[group.workspace],
            group.kind,
            is_unread=(group.workspace, group.kind) in snapshot.unread
            or (group.workspace, group.kind, group.label) in unshared,
            oldest_at=min((run.confirmed_at for run in group.active), default=None),
            listed_at=snapshot.confirmed.get((group.workspace, group.kind)),
            known_since=known_since,
            seen_since=seen_since,
        ):
            continue
        present = [active_run.run.status for active_run in group.active]
        active.add(_labels(group), *map(present.count, _ACTIVE))
        begun = [
            active_run.run.created_at or active_run.run.started_at for active_run in group.active
        ]
        if known := [at for at in begun if at is not None]:
            oldest.add(_labels(group), min(known).timestamp())
    yield from (active, oldest)


def _last_runs(groups: Sequence[SeriesGroup], page: ExpositionPage) -> Iterator[FamilyText]:
    gauges: tuple[tuple[FamilyShape, Callable[[PipelineHealth], float | None], _Choice], ...] = (
        (families.LAST_STARTED, lambda health: _unix(health.last_started_at), max),
        (families.LAST_COMPLETED, lambda health: _unix(health.last_finished_at), max),
        (families.LAST_SUCCESS, lambda health: _unix(health.last_success_at), min),
        (families.LAST_DURATION, _last_duration, None),
        (families.FAILURES, lambda health: health.consecutive_failures, max),
    )
    for shape, value_of, choice in gauges:
        family_text = page.family_text(shape)
        for group in groups:
            healths = group.pipeline_health
            if choice is None and len(healths) > 1:
                healths = [newest for newest in (newest_of(healths),) if newest is not None]
            values = [value for health in healths if (value := value_of(health)) is not None]
            if values:
                family_text.add(_labels(group), (choice or max)(values))
        yield family_text
    result = page.spread(families.LAST_RESULT, _RESULTS)
    for group in groups:
        ends = [
            health.last_status for health in group.pipeline_health if health.last_status in _RESULTS
        ]
        if ends:
            worst = max(ends, key=_RESULTS.index)
            result.add(_labels(group), *(status is worst for status in _RESULTS))
    yield result


def _amounts(buckets: Buckets) -> Iterator[float]:
    """Yield cumulative buckets, the count and the sum."""
    yield from accumulate(buckets.counts)
    yield sum(buckets.counts)
    yield buckets.sum


def _labels(group: SeriesGroup) -> tuple[str, str, str]:
    # The plain text of the kind: an enum's hash is slow, and these are hashed for every series.
    return group.workspace, group.kind.value, group.label


def _last_duration(health: PipelineHealth) -> float | None:
    return health.ends[-1].duration_seconds if health.ends else None


def _unix(at: datetime | None) -> float | None:
    return at.timestamp() if at is not None else None
