"""The families of what is watched, drawn from one picture. Pure, but for the sheets it fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

from monitor.model.knowledge import PipelineStanding, Reachability
from monitor.model.runs import RunKind, Status, Trigger
from monitor.outputs.freshness import UNSEEN_FACTOR, knows_what_runs
from monitor.outputs.metrics import families
from monitor.outputs.metrics.alerts import learned_families
from monitor.outputs.metrics.beyond import beyond_families
from monitor.outputs.metrics.budget import Group, Layout
from monitor.outputs.metrics.labels import schedule_labels_of
from monitor.outputs.metrics.picture import Picture
from monitor.outputs.metrics.rows import (
    DURATION_BOUNDS,
    QUEUE_BOUNDS,
    Buckets,
    JobCounts,
    QueueCounts,
)
from monitor.outputs.metrics.sheets import Page, Sheet

_ACTIVE = (Status.PENDING, Status.RUNNING)
# From best to worst; what shows several recipes shows the worst.
_RESULTS = (Status.SUCCEEDED, Status.CANCELED, Status.LOST, Status.FAILED)
_JOB_RESULTS = (Status.SUCCEEDED, Status.FAILED, Status.CANCELED)


def watched_families(
    picture: Picture,
    layout: Layout,
    page: Page,
    *,
    stale_after_seconds: float,
    capabilities: Sequence[str],
) -> Iterator[Sheet]:
    """Yield what is watched, in the order of the page, each sheet when it is full."""
    yield from _workspaces(picture, page, capabilities)
    yield from _inventory(picture, layout, page)
    yield from _counters(layout.groups, page)
    yield _durations(layout.groups, page)
    yield _waits(picture, page)
    yield _jobs(picture, page)
    yield from _present(picture, layout.groups, page, stale_after_seconds)
    yield from _last_runs(layout.groups, page)
    yield from learned_families(picture, layout.own, page)
    yield from beyond_families(layout.beyond, page)


def _workspaces(picture: Picture, page: Page, capabilities: Sequence[str]) -> Iterator[Sheet]:
    up, skew = page.sheet(families.WORKSPACE_UP), page.sheet(families.CLOCK_SKEW)
    capability = page.sheet(families.CAPABILITY)
    for one in picture.workspaces:
        if one.reachability is not Reachability.UNKNOWN:
            up.add((one.workspace,), one.reachability is not Reachability.UNREACHABLE)
        if one.clock_skew_seconds is not None:
            skew.add((one.workspace,), one.clock_skew_seconds)
        for name in sorted({*capabilities, *one.capabilities}) if one.edition is not None else ():
            capability.add((one.workspace, name), name in one.capabilities)
    yield from (up, skew, capability)
    knowledge = page.sheet(families.KNOWLEDGE)
    for (workspace, kind), at in sorted(picture.confirmed.items()):
        knowledge.add((workspace, kind), at.timestamp())
    yield knowledge


def _inventory(picture: Picture, layout: Layout, page: Page) -> Iterator[Sheet]:
    labels = {one.workspace: schedule_labels_of(one.schedules) for one in picture.workspaces}
    starters: dict[tuple[str, str, str], list[str]] = {}
    for workspace in picture.workspaces:
        for schedule in workspace.schedules:
            label = labels[workspace.workspace][schedule.id]
            for started in schedule.pipelines:
                key = (workspace.workspace, started.kind, started.id)
                starters.setdefault(key, []).append(label)
    info = page.sheet(families.PIPELINE_INFO)
    for one, label in layout.pipelines:
        names = ", ".join(sorted(starters.get((one.workspace, one.kind, one.id), ())))
        info.add((one.workspace, label, one.kind.value, one.id, names), 1)
    yield info
    enabled = page.sheet(families.SCHEDULE_ENABLED)
    for name, schedule in layout.schedules:
        enabled.add((name, labels[name][schedule.id]), schedule.is_enabled)
    yield enabled


def _counters(groups: Sequence[Group], page: Page) -> Iterator[Sheet]:
    started = page.spread(families.RUNS_STARTED, list(Trigger), noted="started")
    for group in groups:
        begun = group.counts.started if group.counts is not None else {}
        started.add(_labels(group), *(begun.get(one, 0) for one in Trigger), seen=group.seen)
    yield started
    ended = page.spread(families.RUNS, _RESULTS, noted="ended")
    for group in groups:
        ends = group.counts.ended if group.counts is not None else {}
        ended.add(_labels(group), *(ends.get(one, 0) for one in _RESULTS), seen=group.seen)
    yield ended


def _durations(groups: Sequence[Group], page: Page) -> Sheet:
    sheet = page.histogram(families.RUN_DURATION, DURATION_BOUNDS, noted="duration")
    for group in groups:
        # A pipeline that was never counted has no histogram: it would only cost series.
        if group.counts is not None:
            sheet.add(_labels(group), *_amounts(group.counts.durations), seen=group.seen)
    return sheet


def _waits(picture: Picture, page: Page) -> Sheet:
    sheet = page.histogram(families.RUN_QUEUE, QUEUE_BOUNDS, noted="queue")
    rows = {key: row for key, row in picture.rows.items() if isinstance(row, QueueCounts)}
    # What the API lists is known before its first run. No flow run ever tells its start.
    for workspace, kind in picture.confirmed:
        if kind is not RunKind.FLOW_RUN:
            fresh = QueueCounts(workspace=workspace, kind=kind)
            rows.setdefault(fresh.key, fresh)
    configured = {one.workspace for one in picture.workspaces}
    for key, row in sorted(rows.items()):
        if row.workspace in configured:
            seen = picture.seen.get(key, {})
            sheet.add((row.workspace, row.kind), *_amounts(row.waits), seen=seen)
    return sheet


def _jobs(picture: Picture, page: Page) -> Sheet:
    sheet = page.spread(families.JOBS, _JOB_RESULTS, noted="ended")
    rows = [one for one in picture.rows.values() if isinstance(one, JobCounts)]
    configured = {one.workspace for one in picture.workspaces}
    for row in sorted(rows, key=lambda one: one.key):
        if row.workspace in configured:
            ends = (row.ended.get(one, 0) for one in _JOB_RESULTS)
            sheet.add((row.workspace, row.job_type), *ends, seen=picture.seen.get(row.key, {}))
    return sheet


def _present(
    picture: Picture, groups: Sequence[Group], page: Page, stale_after_seconds: float
) -> Iterator[Sheet]:
    active = page.spread(families.RUNS_ACTIVE, _ACTIVE)
    oldest = page.sheet(families.OLDEST_ACTIVE)
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
        statuses = [one.run.status for one in group.active]
        active.add(_labels(group), *map(statuses.count, _ACTIVE))
        begun = [one.run.created_at or one.run.started_at for one in group.active]
        if told := [at for at in begun if at is not None]:
            oldest.add(_labels(group), min(told).timestamp())
    yield from (active, oldest)


def _last_runs(groups: Sequence[Group], page: Page) -> Iterator[Sheet]:
    gauges: tuple[tuple[families.Shape, Callable[[PipelineStanding], float | None], bool], ...] = (
        (families.LAST_STARTED, lambda one: _unix(one.last_started_at), True),
        (families.LAST_COMPLETED, lambda one: _unix(one.last_finished_at), True),
        (families.LAST_SUCCESS, lambda one: _unix(one.last_success_at), True),
        (families.LAST_DURATION, lambda one: one.last_duration_seconds, False),
        (families.FAILURES, lambda one: one.consecutive_failures, False),
    )
    for shape, value_of, is_least_worst in gauges:
        sheet = page.sheet(shape)
        for group in groups:
            told = [value for one in group.standings if (value := value_of(one)) is not None]
            if told:
                sheet.add(_labels(group), min(told) if is_least_worst else max(told))
        yield sheet
    result = page.spread(families.LAST_RESULT, _RESULTS)
    for group in groups:
        ends = [one.last_status for one in group.standings if one.last_status in _RESULTS]
        if ends:
            worst = max(ends, key=_RESULTS.index)
            result.add(_labels(group), *(status is worst for status in _RESULTS))
    yield result


def _amounts(buckets: Buckets) -> Iterator[float]:
    """Yield cumulative buckets, the count and the sum."""
    yield from accumulate(buckets.counts)
    yield sum(buckets.counts)
    yield buckets.sum


def _labels(group: Group) -> tuple[str, str, str]:
    # The plain text of the kind: an enum's hash is slow, and these are looked up all the time.
    return group.workspace, group.kind.value, group.label


def _unix(at: datetime | None) -> float | None:
    return at.timestamp() if at is not None else None
