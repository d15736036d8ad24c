"""The lines of a report about one workspace, from its runs as they were grouped."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from monitor.alerting.reports.run_groups import (
    FailedRun,
    FailureGroup,
    RunGroups,
    Tally,
    part_of,
)
from monitor.model.reports import (
    PipelineFields,
    ReportedFailure,
    RunCount,
    SlowRun,
    StretchFigures,
    WorkspaceTrend,
    WorstPipeline,
)
from monitor.model.runs import Pipeline, PipelineKind, RunKind, RunState, Status
from monitor.model.slices import in_slices, sorted_in_slices
from monitor.tracking.live_state import LiveStateView

MOST_WORST = 5
_IDS_SHOWN = 20
_LINES_AT_ONCE = 50
_SORTED_AT_ONCE = 500
_REASON_CHARACTERS = 500


class _Failures(TypedDict):
    failed_and_still_failing: tuple[ReportedFailure, ...]
    failed_and_recovered: tuple[ReportedFailure, ...]
    over_when_seen: tuple[ReportedFailure, ...]


class WorkspaceLines:
    """Writes the lines with the names that pipelines have now."""

    def __init__(self, view: LiveStateView, workspace: str) -> None:
        self._view = view
        self._workspace = workspace

    async def of_failures(self, groups: RunGroups) -> _Failures:
        """Return the failures by group, those of one part together."""
        found: dict[FailureGroup, dict[object, list[FailedRun]]] = {
            group: defaultdict(list) for group in FailureGroup
        }
        async for group, failed in in_slices(groups.failures()):
            found[group][part_of(failed.run)].append(failed)
        rows = {
            group: tuple(
                [
                    self._failure(sorted(runs, key=_newest_first, reverse=True))
                    async for runs in in_slices(parts.values(), size=_LINES_AT_ONCE)
                ]
            )
            for group, parts in found.items()
            if group is not FailureGroup.PART
        }
        return {
            "failed_and_still_failing": rows[FailureGroup.STILL_FAILING],
            "failed_and_recovered": rows[FailureGroup.RECOVERED],
            "over_when_seen": rows[FailureGroup.OVER_WHEN_SEEN],
        }

    def _failure(self, failed: Sequence[FailedRun]) -> ReportedFailure:
        """Return one line about failures of one part; the newest is the first of them."""
        newest, run = failed[0], failed[0].run
        owner = None
        if run.pipeline is not None:
            _, owner = self._view.place(self._workspace, run.pipeline)
        return ReportedFailure(
            **self._named(run.pipeline),
            kind=run.key.kind,
            part=self._part(run),
            failures=len(failed),
            status=run.status,
            first_ended_at=failed[-1].end.at,
            last_ended_at=newest.end.at,
            is_time_certain=run.finished_at is not None and "finished_at" not in run.approximate,
            run_ids=tuple(each.run.key.id for each in failed[:_IDS_SHOWN]),
            reason=_reason(run),
            owner=owner or run.owner,
            recovered_at=newest.recovered_at,
            seen_late=sum(each.is_seen_late for each in failed),
        )

    def _part(self, run: RunState) -> str | None:
        if run.key.kind is not RunKind.JOB_GROUP or run.recipe is None:
            return None
        return self._view.recipe_name(self._workspace, run.recipe.id) or run.recipe.name

    async def of_slow(self, groups: RunGroups) -> tuple[SlowRun, ...]:
        lines = [
            SlowRun(
                **self._named(slow.run.pipeline),
                kind=slow.run.key.kind,
                run_id=slow.run.key.id,
                ended_at=slow.end.at,
                seconds=slow.seconds,
                usual_seconds=slow.usual_seconds,
                over_seconds=slow.seconds - slow.usual_seconds,
            )
            async for slow in in_slices(groups.slow, size=_LINES_AT_ONCE)
        ]
        return tuple(lines)

    def of_counts(self, groups: RunGroups) -> tuple[RunCount, ...]:
        return tuple(
            RunCount(kind=kind, result=result, count=count)
            for (kind, result), count in sorted(groups.now.counts.items())
        )

    async def of_trends(self, groups: RunGroups) -> tuple[WorkspaceTrend, ...]:
        trend = WorkspaceTrend(
            workspace=self._workspace,
            now=await _figures(groups.now),
            before=await _figures(groups.before),
        )
        return (trend,)

    async def of_worst(self, groups: RunGroups) -> tuple[WorstPipeline, ...]:
        """Return the pipelines with the most failures."""
        failed: Counter[tuple[PipelineKind, str]] = Counter()
        named: dict[tuple[PipelineKind, str], Pipeline] = {}
        async for group, failure in in_slices(groups.failures()):
            pipeline = failure.run.pipeline
            if group is not FailureGroup.PART and pipeline is not None:
                key = (pipeline.kind, pipeline.id)
                failed[key] += 1
                named.setdefault(key, pipeline)
        return tuple(
            WorstPipeline(
                **self._named(named[key]), runs=max(groups.runs[key], count), failed=count
            )
            for key, count in failed.most_common(MOST_WORST)
        )

    def _named(self, pipeline: Pipeline | None) -> PipelineFields:
        return {
            "workspace": self._workspace,
            "pipeline": self._view.label(self._workspace, pipeline),
            "pipeline_kind": None if pipeline is None else pipeline.kind,
            "pipeline_id": None if pipeline is None else pipeline.id,
        }


def _newest_first(failed: FailedRun) -> tuple[datetime, bool, str]:
    return failed.end.order


def _reason(run: RunState) -> str | None:
    part = run.failed_part
    reason = run.error or (None if part is None else part.error)
    return None if reason is None else reason[:_REASON_CHARACTERS]


async def _figures(tally: Tally) -> StretchFigures:
    ended = sum(tally.counts.values())
    succeeded = sum(
        count for (_, status), count in tally.counts.items() if status is Status.SUCCEEDED
    )
    return StretchFigures(
        runs=ended,
        success_ratio=succeeded / ended if ended else None,
        median_seconds=await _median(tally.success_seconds),
        median_queue_seconds=await _median(tally.queue_seconds),
    )


async def _median(values: list[float]) -> float | None:
    if not values:
        return None
    ordered = await sorted_in_slices(values, key=float, size=_SORTED_AT_ONCE)
    return ordered[len(ordered) // 2]
