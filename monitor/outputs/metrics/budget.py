"""Who has series of its own, and who is shown together as ``__other__``. Pure.

A pipeline that is counted has its place in the table of rows, so it keeps its series over
restarts, and what was once counted under ``__other__`` stays there: no counter ever goes back.
What only has gauges takes the places that are left, and pipelines that never ran the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from monitor.model.knowledge import (
    ActiveRun,
    NamedPipeline,
    PipelineStanding,
    ScheduleKnown,
)
from monitor.model.runs import RunKind
from monitor.outputs.metrics.beyond import BeyondLayout, lay_out_beyond
from monitor.outputs.metrics.counting import Limits
from monitor.outputs.metrics.families import (
    SCHEDULE_ENABLED,
    SERIES_OF_IDLE_PIPELINE,
    SERIES_OF_PIPELINE,
)
from monitor.outputs.metrics.labels import (
    OTHER_LABEL,
    UNKNOWN_LABEL,
    PipelineId,
    Running,
    by_number,
    kinds_of_runs,
    labels_of,
    pipeline_of,
    running_of,
)
from monitor.outputs.metrics.picture import Picture
from monitor.outputs.metrics.rows import UNKNOWN, Identity, RunCounts, Seen

_COST = sum(SERIES_OF_PIPELINE.values())
_IDLE_COST = sum(SERIES_OF_IDLE_PIPELINE.values())


class Group(Struct, kw_only=True):
    """What is shown under one set of the labels workspace, kind and pipeline."""

    workspace: str
    kind: RunKind
    label: str
    counts: RunCounts | None = None
    seen: Mapping[str, Seen] = {}
    active: list[ActiveRun] = []
    standings: list[PipelineStanding] = []


class Layout(Struct, frozen=True, kw_only=True):
    """What the page shows. ``dropped`` says which series it leaves out: metric, whose, how many."""

    groups: tuple[Group, ...]
    pipelines: tuple[tuple[NamedPipeline, str], ...]  # with the label that its series carry
    own: Mapping[Identity, str]  # those with series of their own, and the labels of these
    schedules: tuple[tuple[str, ScheduleKnown], ...]  # with its workspace
    beyond: BeyondLayout
    dropped: Mapping[tuple[str, str], int]


def limits_of(*, series_budget: int, forget_seconds: float, workspaces: int) -> Limits:
    """Return how many pipelines a budget has places for.

    ``unknown`` and ``__other__`` of each workspace and kind are paid first, so the budget holds.
    """
    reserved = workspaces * len(RunKind) * 2 * _COST
    return Limits(places=max(0, (series_budget - reserved) // _COST), forget_seconds=forget_seconds)


def lay_out(picture: Picture, *, limits: Limits) -> Layout:
    """Decide what is shown under which name."""
    configured = {one.workspace for one in picture.workspaces}
    owners = {
        row.identity
        for row in picture.rows.values()
        if isinstance(row, RunCounts) and row.needs_place
    }
    running = running_of(picture.active)
    gauged = _in_order(_gauged(picture, running, configured) - owners)
    free = max(0, limits.places - len(owners))
    admitted, folded = gauged[:free], gauged[free:]
    idle = _in_order(_inventory(picture, configured) - owners - set(gauged))
    left = (free - len(admitted)) * _COST
    shown_idle, hidden_idle = idle[: left // _IDLE_COST], idle[left // _IDLE_COST :]
    schedules = [(one.workspace, each) for one in picture.workspaces for each in one.schedules]
    left -= len(shown_idle) * _IDLE_COST
    labels = labels_of(picture, running)
    shown = {one for one in owners if one.workspace in configured}.union(admitted, shown_idle)
    own = {one: labels[pipeline_of(one)] for one in shown}
    beyond = lay_out_beyond(
        picture,
        room=max(0, left - len(schedules)),
        pipelines={pipeline_of(one): label for one, label in own.items()},
    )
    return Layout(
        groups=_groups(picture, running, configured, own),
        pipelines=_shown_pipelines(picture, shown, labels),
        own=own,
        schedules=tuple(schedules[:left]),
        beyond=beyond,
        dropped={
            **beyond.dropped,
            **_series(folded, {shape.name: n for shape, n in SERIES_OF_PIPELINE.items()}),
            **_series(hidden_idle, {shape.name: n for shape, n in SERIES_OF_IDLE_PIPELINE.items()}),
            **{(SCHEDULE_ENABLED.name, f"{name}/{one.id}"): 1 for name, one in schedules[left:]},
        },
    )


def _groups(
    picture: Picture, running: Running, configured: set[str], labels: Mapping[Identity, str]
) -> tuple[Group, ...]:
    groups: dict[tuple[str, RunKind, str], Group] = {}

    def group_of(identity: Identity) -> Group:
        reserved = UNKNOWN_LABEL if identity.pipeline == UNKNOWN else OTHER_LABEL
        label = labels.get(identity, reserved)
        key = (identity.workspace, identity.kind, label)
        return groups.setdefault(key, Group(workspace=key[0], kind=key[1], label=label))

    for identity in labels:
        group_of(identity)
    for row in picture.rows.values():
        if isinstance(row, RunCounts) and row.identity.workspace in configured:
            group = group_of(row.identity)
            group.counts, group.seen = row, picture.seen.get(row.key, {})
    for identity, active in running.items():
        if identity.workspace in configured:
            group_of(identity).active.extend(active)
    for standing in picture.standings:
        if standing.workspace in configured:
            group_of(_identity(standing)).standings.append(standing)
    return tuple(groups[key] for key in sorted(groups))


def _gauged(picture: Picture, running: Running, configured: set[str]) -> set[Identity]:
    found = {*running, *map(_identity, picture.standings)}
    return {one for one in found if one.workspace in configured and one.pipeline != UNKNOWN}


def _inventory(picture: Picture, configured: set[str]) -> set[Identity]:
    return {
        Identity(one.workspace, kind, one.id)
        for one in picture.pipelines
        for kind in kinds_of_runs(one.kind)
        if one.workspace in configured
    }


def _identity(standing: PipelineStanding) -> Identity:
    return Identity(standing.workspace, standing.run_kind, standing.pipeline.id)


def _in_order(identities: Iterable[Identity]) -> list[Identity]:
    return sorted(identities, key=lambda one: (one.workspace, by_number(one.pipeline), one.kind))


def _shown_pipelines(
    picture: Picture, own: set[Identity], labels: Mapping[PipelineId, str]
) -> tuple[tuple[NamedPipeline, str], ...]:
    shown = {pipeline_of(one) for one in own}
    return tuple(
        (one, labels[one.workspace, one.kind, one.id])
        for one in picture.pipelines
        if (one.workspace, one.kind, one.id) in shown
    )


def _series(
    identities: Iterable[Identity], series: Mapping[str, int]
) -> dict[tuple[str, str], int]:
    return {
        (metric, identity.key): count for identity in identities for metric, count in series.items()
    }
