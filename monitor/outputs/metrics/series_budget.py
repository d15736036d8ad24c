"""The budget of series: which pipelines have their own, which are in ``__other__``. Pure.

A pipeline that is counted has its place in the table of rows, so it keeps its series over
restarts, and what was once counted under ``__other__`` stays there: no counter ever goes back.
What only has gauges takes the places that are left, and pipelines that never ran the rest.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from heapq import nsmallest

from msgspec import Struct

from monitor.model.live_state import ActiveRun, NamedPipeline, PipelineHealth, ScheduleKnown
from monitor.model.runs import RunKind
from monitor.outputs.metrics.counter_rows import UNKNOWN, Identity, RunCounts, RunExemplar
from monitor.outputs.metrics.counting import CountingLimits
from monitor.outputs.metrics.families import (
    SCHEDULE_ENABLED,
    SERIES_OF_IDLE_PIPELINE,
    SERIES_OF_PIPELINE,
)
from monitor.outputs.metrics.inventory_metrics import (
    InventoryLayout,
    SeriesByMetric,
    lay_out_inventory,
)
from monitor.outputs.metrics.labels import (
    OTHER_LABEL,
    UNKNOWN_LABEL,
    ActiveRunsByIdentity,
    PipelineId,
    by_number,
    kinds_of_runs,
    labels_of,
    pipeline_of,
    running_of,
)
from monitor.outputs.metrics.metrics_snapshot import MetricsSnapshot

_PIPELINE = {shape.name: count for shape, count in SERIES_OF_PIPELINE.items()}
_IDLE_PIPELINE = {shape.name: count for shape, count in SERIES_OF_IDLE_PIPELINE.items()}
_SCHEDULE = {SCHEDULE_ENABLED.name: 1}
_COST = sum(_PIPELINE.values())
_IDLE_COST = sum(_IDLE_PIPELINE.values())


class SeriesGroup(Struct, kw_only=True):
    """What is shown under one set of the labels workspace, kind and pipeline."""

    workspace: str
    kind: RunKind
    label: str
    counts: RunCounts | None = None
    seen: Mapping[str, RunExemplar] = {}
    active: list[ActiveRun] = []
    pipeline_health: list[PipelineHealth] = []


class SeriesLayout(Struct, frozen=True, kw_only=True):
    """What the page shows. ``dropped`` are the series that it leaves out, by their owner."""

    groups: tuple[SeriesGroup, ...]
    pipelines: tuple[tuple[NamedPipeline, str], ...]  # with the label that its series carry
    own: Mapping[Identity, str]  # those with series of their own, and the labels of these
    schedules: tuple[tuple[str, ScheduleKnown], ...]  # with its workspace
    inventory: InventoryLayout
    dropped: Mapping[Hashable, SeriesByMetric]


def limits_of(*, series_budget: int, forget_seconds: float, workspaces: int) -> CountingLimits:
    """Return how many pipelines a budget has places for.

    ``unknown`` and ``__other__`` of each workspace and kind are paid first, so the budget holds.
    """
    reserved = workspaces * len(RunKind) * 2 * _COST
    return CountingLimits(
        places=max(0, (series_budget - reserved) // _COST), forget_seconds=forget_seconds
    )


def lay_out(snapshot: MetricsSnapshot, *, limits: CountingLimits) -> SeriesLayout:
    """Decide what is shown under which name."""
    configured = {workspace.workspace for workspace in snapshot.workspaces}
    owners = {
        row.identity
        for row in snapshot.rows.values()
        if isinstance(row, RunCounts) and row.needs_place
    }
    running = running_of(snapshot.active)
    gauged = _gauged(snapshot, running, configured) - owners
    free = max(0, limits.places - len(owners))
    admitted = _first(free, gauged)
    idle = _inventory(snapshot, configured) - owners - gauged
    left = (free - len(admitted)) * _COST
    shown_idle = _first(left // _IDLE_COST, idle)
    schedules = [
        (workspace.workspace, schedule)
        for workspace in snapshot.workspaces
        for schedule in workspace.schedules
    ]
    left -= len(shown_idle) * _IDLE_COST
    labels = labels_of(snapshot, running)
    shown = {owner for owner in owners if owner.workspace in configured}.union(admitted, shown_idle)
    own = {identity: labels[pipeline_of(identity)] for identity in shown}
    inventory = lay_out_inventory(
        snapshot,
        room=max(0, left - len(schedules)),
        pipelines={pipeline_of(identity): label for identity, label in own.items()},
    )
    return SeriesLayout(
        groups=_groups(snapshot, running, configured, own),
        pipelines=_shown_pipelines(snapshot, shown, labels),
        own=own,
        schedules=tuple(schedules[:left]),
        inventory=inventory,
        dropped={
            **inventory.dropped,
            **dict.fromkeys(gauged - admitted, _PIPELINE),
            **dict.fromkeys(idle - shown_idle, _IDLE_PIPELINE),
            **{(name, schedule.id): _SCHEDULE for name, schedule in schedules[left:]},
        },
    )


def _groups(
    snapshot: MetricsSnapshot,
    running: ActiveRunsByIdentity,
    configured: set[str],
    labels: Mapping[Identity, str],
) -> tuple[SeriesGroup, ...]:
    groups: dict[tuple[str, RunKind, str], SeriesGroup] = {}

    def group_of(identity: Identity) -> SeriesGroup:
        reserved = UNKNOWN_LABEL if identity.pipeline == UNKNOWN else OTHER_LABEL
        label = labels.get(identity, reserved)
        key = (identity.workspace, identity.kind, label)
        return groups.setdefault(key, SeriesGroup(workspace=key[0], kind=key[1], label=label))

    for identity in labels:
        group_of(identity)
    for row in snapshot.rows.values():
        if isinstance(row, RunCounts) and row.identity.workspace in configured:
            group = group_of(row.identity)
            group.counts, group.seen = row, snapshot.seen.get(row.key, {})
    for identity, active in running.items():
        if identity.workspace in configured:
            group_of(identity).active.extend(active)
    for health in snapshot.pipeline_health:
        if health.workspace in configured:
            group_of(_identity(health)).pipeline_health.append(health)
    return tuple(groups[key] for key in sorted(groups))


def _gauged(
    snapshot: MetricsSnapshot, running: ActiveRunsByIdentity, configured: set[str]
) -> set[Identity]:
    identities = {*running, *map(_identity, snapshot.pipeline_health)}
    return {
        identity
        for identity in identities
        if identity.workspace in configured and identity.pipeline != UNKNOWN
    }


def _inventory(snapshot: MetricsSnapshot, configured: set[str]) -> set[Identity]:
    return {
        Identity(pipeline.workspace, kind, pipeline.id)
        for pipeline in snapshot.pipelines
        for kind in kinds_of_runs(pipeline.kind)
        if pipeline.workspace in configured
    }


def _identity(health: PipelineHealth) -> Identity:
    return Identity(health.workspace, health.run_kind, health.pipeline.id)


def _first(count: int, identities: set[Identity]) -> set[Identity]:
    """Return the first so many of them, by workspace, id and kind."""
    if count <= 0 or len(identities) <= count:
        return identities if count > 0 else set()
    first = nsmallest(
        count,
        identities,
        key=lambda identity: (identity.workspace, by_number(identity.pipeline), identity.kind),
    )
    return set(first)


def _shown_pipelines(
    snapshot: MetricsSnapshot, own: set[Identity], labels: Mapping[PipelineId, str]
) -> tuple[tuple[NamedPipeline, str], ...]:
    shown = {pipeline_of(identity) for identity in own}
    return tuple(
        (pipeline, labels[pipeline.workspace, pipeline.kind, pipeline.id])
        for pipeline in snapshot.pipelines
        if (pipeline.workspace, pipeline.kind, pipeline.id) in shown
    )
