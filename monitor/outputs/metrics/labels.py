"""The names under which pipelines and schedules have series: unique, and never a reserved word."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from monitor.model.live_state import ActiveRun, ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.outputs.metrics.counter_rows import Identity, RunCounts, identity_of
from monitor.outputs.metrics.metrics_snapshot import MetricsSnapshot

UNKNOWN_LABEL = "unknown"
OTHER_LABEL = "__other__"

PipelineId = tuple[str, PipelineKind, str]  # workspace, kind, id
ActiveRunsByIdentity = Mapping[Identity, Sequence[ActiveRun]]


def kind_of_pipeline(kind: RunKind) -> PipelineKind:
    """Return what a run of that kind executes."""
    return PipelineKind.PLAN if kind is RunKind.PLAN_RUN else PipelineKind.FLOW


def kinds_of_runs(kind: PipelineKind) -> tuple[RunKind, ...]:
    """Return the kinds of runs in which a pipeline is executed."""
    if kind is PipelineKind.PLAN:
        return (RunKind.PLAN_RUN,)
    return (RunKind.FLOW_RUN, RunKind.JOB_GROUP)


def pipeline_of(identity: Identity) -> PipelineId:
    return identity.workspace, kind_of_pipeline(identity.kind), identity.pipeline


def running_of(active: Iterable[ActiveRun]) -> ActiveRunsByIdentity:
    """Return the runs that have not ended, by the labels of their series."""
    running: dict[Identity, list[ActiveRun]] = {}
    for active_run in active:
        running.setdefault(identity_of(active_run.run), []).append(active_run)
    return running


def labels_of(snapshot: MetricsSnapshot, running: ActiveRunsByIdentity) -> dict[PipelineId, str]:
    """Name every pipeline of the snapshot. What the inventory names keeps that name.

    A pipeline that the inventory has not named, or has no more, goes by the name that its runs
    reported; where that is taken, its id is added.
    """
    present = {
        (pipeline.workspace, pipeline.kind, pipeline.id): pipeline.label
        for pipeline in snapshot.pipelines
    }
    past = {
        pipeline: name
        for pipeline, name in _reported_names(snapshot, running)
        if pipeline not in present
    }
    labels: dict[PipelineId, str] = {}
    taken: defaultdict[tuple[str, PipelineKind], set[str]] = defaultdict(_reserved)
    for names in (present, past):
        # Where all keep their names the order does not matter, and sorting takes longest.
        for identity in names if _are_free(names, taken) else sorted(names, key=_by_number):
            labels[identity] = _free(names[identity], identity[2], taken[identity[:2]])
    return labels


def schedule_labels_of(schedules: Iterable[ScheduleKnown]) -> dict[str, str]:
    """Name the schedules of one workspace, by id."""
    return labels_by_id((schedule.id, schedule.name) for schedule in schedules)


def labels_by_id(named: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Return a label for each id and name; the lower id keeps a name that two have."""
    taken = {OTHER_LABEL}
    ordered = sorted(named, key=lambda text: by_number(text[0]))
    return {identity: _free(name, identity, taken) for identity, name in ordered}


def by_number(identity: str) -> tuple[int, str]:
    """Order ids as numbers where they are: "10" comes after "9"."""
    return (int(identity) if identity.isdecimal() else 0, identity)


def _reserved() -> set[str]:
    return {UNKNOWN_LABEL, OTHER_LABEL}


def _are_free(
    names: Mapping[PipelineId, str | None],
    taken: defaultdict[tuple[str, PipelineKind], set[str]],
) -> bool:
    """True where each has a name, and none is taken or the name of another one."""
    own = {(workspace, kind, name) for (workspace, kind, _), name in names.items()}
    return len(own) == len(names) and all(
        name is not None and name not in taken[identity[:2]] for identity, name in names.items()
    )


def _by_number(pipeline: PipelineId) -> tuple[str, str, int, str]:
    workspace, kind, pipeline_id = pipeline
    return (workspace, kind, *by_number(pipeline_id))


def _free(name: str | None, identity: str, taken: set[str]) -> str:
    label = name or f"#{identity}"
    while label in taken:
        label = f"{label}#{identity}"
    taken.add(label)
    return label


def _reported_names(
    snapshot: MetricsSnapshot, running: ActiveRunsByIdentity
) -> Iterable[tuple[PipelineId, str | None]]:
    for row in snapshot.rows.values():
        if isinstance(row, RunCounts) and row.needs_place:
            yield pipeline_of(row.identity), row.name
    for status in snapshot.pipeline_health:
        yield _named(status.workspace, status.pipeline)
    for identity, active in running.items():
        pipeline = active[-1].run.pipeline
        if pipeline is not None:
            yield _named(identity.workspace, pipeline)


def _named(workspace: str, pipeline: Pipeline) -> tuple[PipelineId, str | None]:
    return (workspace, pipeline.kind, pipeline.id), pipeline.name
