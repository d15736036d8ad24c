"""The families of what is watched, from one picture. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

from prometheus_client.core import Exemplar

from monitor.model.knowledge import PipelineStanding, Reachability
from monitor.model.runs import RunKind, Status, Trigger
from monitor.outputs.freshness import UNSEEN_FACTOR, knows_what_runs
from monitor.outputs.metrics import families
from monitor.outputs.metrics.budget import Group, Layout
from monitor.outputs.metrics.families import Family
from monitor.outputs.metrics.labels import schedule_labels_of
from monitor.outputs.metrics.picture import Picture
from monitor.outputs.metrics.rows import (
    DURATION_BOUNDS,
    QUEUE_BOUNDS,
    Buckets,
    JobCounts,
    QueueCounts,
    Seen,
)

_ACTIVE = (Status.PENDING, Status.RUNNING)
# From best to worst; what shows several recipes shows the worst.
_RESULTS = (Status.SUCCEEDED, Status.CANCELED, Status.LOST, Status.FAILED)
_JOB_RESULTS = (Status.SUCCEEDED, Status.FAILED, Status.CANCELED)


def watched_families(
    picture: Picture, layout: Layout, *, stale_after_seconds: float, capabilities: Sequence[str]
) -> Iterator[Family]:
    """Yield what is watched; a family without a single sample is still there, with its help."""
    yield from _workspaces(picture, capabilities)
    yield from _inventory(picture, layout)
    yield from _counters(layout.groups)
    yield _durations(layout.groups)
    yield _waits(picture)
    yield _jobs(picture)
    yield from _present(picture, layout.groups, stale_after_seconds)
    yield from _last_runs(layout.groups)


def _workspaces(picture: Picture, capabilities: Sequence[str]) -> Iterator[Family]:
    up, skew = families.WORKSPACE_UP.gauge(), families.CLOCK_SKEW.gauge()
    capability = families.CAPABILITY.gauge()
    for one in picture.workspaces:
        if one.reachability is not Reachability.UNKNOWN:
            up.add_metric([one.workspace], one.reachability is not Reachability.UNREACHABLE)
        if one.clock_skew_seconds is not None:
            skew.add_metric([one.workspace], one.clock_skew_seconds)
        for name in sorted({*capabilities, *one.capabilities}) if one.edition is not None else ():
            capability.add_metric([one.workspace, name], name in one.capabilities)
    yield from (up, skew, capability)
    knowledge = families.KNOWLEDGE.gauge()
    for (workspace, kind), at in sorted(picture.confirmed.items()):
        knowledge.add_metric([workspace, kind], at.timestamp())
    yield knowledge


def _inventory(picture: Picture, layout: Layout) -> Iterator[Family]:
    labels = {one.workspace: schedule_labels_of(one.schedules) for one in picture.workspaces}
    starters: dict[tuple[str, str, str], list[str]] = {}
    for workspace in picture.workspaces:
        for schedule in workspace.schedules:
            label = labels[workspace.workspace][schedule.id]
            for started in schedule.pipelines:
                key = (workspace.workspace, started.kind, started.id)
                starters.setdefault(key, []).append(label)
    info = families.PIPELINE_INFO.info()
    for one, label in layout.pipelines:
        names = ", ".join(sorted(starters.get((one.workspace, one.kind, one.id), ())))
        values = (one.workspace, label, one.kind, one.id, names)
        info.add_metric([], dict(zip(families.PIPELINE_INFO.labels, values, strict=True)))
    yield info
    enabled = families.SCHEDULE_ENABLED.gauge()
    for name, schedule in layout.schedules:
        enabled.add_metric([name, labels[name][schedule.id]], schedule.is_enabled)
    yield enabled


def _counters(groups: Sequence[Group]) -> Iterator[Family]:
    started, ended = families.RUNS_STARTED.counter(), families.RUNS.counter()
    for group in groups:
        counts, labels = group.counts, _labels(group)
        for trigger in Trigger:
            value = counts.started.get(trigger, 0) if counts is not None else 0
            seen = _exemplar(group.seen, f"started:{trigger}")
            started.add_metric([*labels, trigger], value, exemplar=seen)
        for result in _RESULTS:
            value = counts.ended.get(result, 0) if counts is not None else 0
            seen = _exemplar(group.seen, f"ended:{result}")
            ended.add_metric([*labels, result], value, exemplar=seen)
    yield from (started, ended)


def _durations(groups: Sequence[Group]) -> Family:
    family = families.RUN_DURATION.histogram()
    for group in groups:
        # A pipeline that was never counted has no histogram: it would only cost series.
        if group.counts is not None:
            durations = group.counts.durations
            shown = _buckets(durations, DURATION_BOUNDS, group.seen, "duration")
            family.add_metric(_labels(group), shown, durations.sum)
    return family


def _waits(picture: Picture) -> Family:
    family = families.RUN_QUEUE.histogram()
    rows = {key: row for key, row in picture.rows.items() if isinstance(row, QueueCounts)}
    # What the API lists is known before its first run. No flow run ever tells its start.
    for workspace, kind in picture.confirmed:
        if kind is not RunKind.FLOW_RUN:
            fresh = QueueCounts(workspace=workspace, kind=kind)
            rows.setdefault(fresh.key, fresh)
    configured = {one.workspace for one in picture.workspaces}
    for key, row in sorted(rows.items()):
        if row.workspace in configured:
            shown = _buckets(row.waits, QUEUE_BOUNDS, picture.seen.get(key, {}), "queue")
            family.add_metric([row.workspace, row.kind], shown, row.waits.sum)
    return family


def _jobs(picture: Picture) -> Family:
    family = families.JOBS.counter()
    rows = [one for one in picture.rows.values() if isinstance(one, JobCounts)]
    configured = {one.workspace for one in picture.workspaces}
    for row in sorted(rows, key=lambda one: one.key):
        for result in _JOB_RESULTS if row.workspace in configured else ():
            seen = _exemplar(picture.seen.get(row.key, {}), f"ended:{result}")
            labels = [row.workspace, row.job_type, result]
            family.add_metric(labels, row.ended.get(result, 0), exemplar=seen)
    return family


def _present(
    picture: Picture, groups: Sequence[Group], stale_after_seconds: float
) -> Iterator[Family]:
    active, oldest = families.RUNS_ACTIVE.gauge(), families.OLDEST_ACTIVE.gauge()
    known_since = picture.now - timedelta(seconds=stale_after_seconds)
    seen_since = picture.now - UNSEEN_FACTOR * timedelta(seconds=stale_after_seconds)
    standings = {one.workspace: one for one in picture.workspaces}
    for group in groups:
        if not knows_what_runs(
            standings[group.workspace],
            active=group.active,
            listed_at=picture.confirmed.get((group.workspace, group.kind)),
            known_since=known_since,
            seen_since=seen_since,
        ):
            continue
        for status in _ACTIVE:
            count = sum(one.run.status is status for one in group.active)
            active.add_metric([*_labels(group), status], count)
        begun = [one.run.created_at or one.run.started_at for one in group.active]
        if told := [at for at in begun if at is not None]:
            oldest.add_metric(_labels(group), min(told).timestamp())
    yield from (active, oldest)


def _last_runs(groups: Sequence[Group]) -> Iterator[Family]:
    gauges: tuple[tuple[families.Shape, Callable[[PipelineStanding], float | None], bool], ...] = (
        (families.LAST_STARTED, lambda one: _unix(one.last_started_at), True),
        (families.LAST_COMPLETED, lambda one: _unix(one.last_finished_at), True),
        (families.LAST_SUCCESS, lambda one: _unix(one.last_success_at), True),
        (families.LAST_DURATION, lambda one: one.last_duration_seconds, False),
        (families.FAILURES, lambda one: one.consecutive_failures, False),
    )
    for shape, value_of, is_least_worst in gauges:
        family = shape.gauge()
        for group in groups:
            told = [value for one in group.standings if (value := value_of(one)) is not None]
            if told:
                family.add_metric(_labels(group), min(told) if is_least_worst else max(told))
        yield family
    result = families.LAST_RESULT.gauge()
    for group in groups:
        ends = [one.last_status for one in group.standings if one.last_status in _RESULTS]
        if ends:
            worst = max(ends, key=_RESULTS.index)
            for status in _RESULTS:
                result.add_metric([*_labels(group), status], status is worst)
    yield result


def _buckets(
    buckets: Buckets, bounds: Sequence[int], seen: Mapping[str, Seen], series: str
) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    """Return cumulative buckets as the client library takes them."""
    names = [*(f"{bound:.1f}" for bound in bounds), "+Inf"]
    shown: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    for place, (name, count) in enumerate(zip(names, accumulate(buckets.counts), strict=True)):
        exemplar = _exemplar(seen, f"{series}:{place}")
        shown.append((name, count) if exemplar is None else (name, count, exemplar))
    return shown


def _exemplar(seen: Mapping[str, Seen], series: str) -> Exemplar | None:
    one = seen.get(series)
    return Exemplar({"run_id": one.run_id}, one.value, one.at) if one is not None else None


def _labels(group: Group) -> list[str]:
    return [group.workspace, group.kind, group.label]


def _unix(at: datetime | None) -> float | None:
    return at.timestamp() if at is not None else None
