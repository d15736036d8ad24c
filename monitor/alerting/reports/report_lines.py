"""The lines of a report about one workspace, from its runs as they were grouped."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from heapq import merge
from typing import TypedDict

from msgspec import Struct

from monitor.alerting.reports.run_groups import (
    MOST_ROWS,
    FailedRun,
    FailingPart,
    FailureGroup,
    PipelineId,
    RunGroups,
    Tally,
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
from monitor.model.runs import Pipeline, RunKind, RunState, Status
from monitor.model.slices import in_slices, pieces_of, sorted_in_slices
from monitor.model.words import counted
from monitor.tracking.live_state import LiveStateView

MOST_WORST = 5
_IDS_SHOWN = 20
_LINES_AT_ONCE = 50
_SORTED_AT_ONCE = 500
_REASON_CHARACTERS = 500
_LISTS = {
    FailureGroup.STILL_FAILING: "failed_and_still_failing",
    FailureGroup.RECOVERED: "failed_and_recovered",
    FailureGroup.OVER_WHEN_SEEN: "over_when_seen",
}


class _Failures(TypedDict):
    failed_and_still_failing: tuple[ReportedFailure, ...]
    failed_and_recovered: tuple[ReportedFailure, ...]
    over_when_seen: tuple[ReportedFailure, ...]


class _PartFailures(Struct, gc=False):
    """The failures of one part in one group."""

    newest: FailedRun
    oldest: FailedRun
    run_ids: tuple[str, ...] = ()
    failures: int = 0
    seen_late: int = 0

    def add(self, failed: FailedRun) -> None:
        """Take one that is older than all before it."""
        self.oldest = failed
        self.failures += 1
        self.seen_late += failed.is_seen_late
        if self.failures <= _IDS_SHOWN:
            self.run_ids = (*self.run_ids, failed.run.key.id)


class _PartsOfGroup:
    """The parts of one group, the newest failure first, and which were past the bound."""

    def __init__(self) -> None:
        self.shown: dict[FailingPart, _PartFailures] = {}
        self.left_out: set[FailingPart] = set()

    def add(self, failed: FailedRun) -> None:
        """Take one that is older than all before it."""
        part = self.shown.get(failed.part)
        if part is None and len(self.shown) >= MOST_ROWS:
            self.left_out.add(failed.part)
            return
        if part is None:
            part = self.shown[failed.part] = _PartFailures(newest=failed, oldest=failed)
        part.add(failed)


class WorkspaceLines:
    """Writes the lines with the names that pipelines have now."""

    def __init__(self, view: LiveStateView, workspace: str) -> None:
        self._view = view
        self._workspace = workspace
        self._left_out: dict[str, int] = {}  # by list

    def left_out(self) -> Iterator[str]:
        """Yield a sentence for each list that was cut so far."""
        for name, count in self._left_out.items():
            if count:
                more, words = counted(count, "line"), name.replace("_", " ")
                yield f"{self._workspace}: {more} of {words} left out"

    async def of_failures(self, groups: RunGroups) -> _Failures:
        """Return the failures by group, those of one part together; the newest parts."""
        found = {group: _PartsOfGroup() for group in FailureGroup}
        oldest_first = await sorted_in_slices(groups.failures(), key=_end_order)
        async for known in in_slices(reversed(oldest_first)):
            group, failed = groups.grouped(known)
            found[group].add(failed)
        del found[FailureGroup.PART]
        rows = {
            group: tuple(
                [
                    self._failure(part)
                    async for part in in_slices(parts.shown.values(), size=_LINES_AT_ONCE)
                ]
            )
            for group, parts in found.items()
        }
        for group, name in _LISTS.items():
            self._left_out[name] = len(found[group].left_out)
        return {
            "failed_and_still_failing": rows[FailureGroup.STILL_FAILING],
            "failed_and_recovered": rows[FailureGroup.RECOVERED],
            "over_when_seen": rows[FailureGroup.OVER_WHEN_SEEN],
        }

    def _failure(self, part: _PartFailures) -> ReportedFailure:
        """Return one line about failures of one part."""
        newest, run = part.newest, part.newest.run
        owner = None
        if run.pipeline is not None:
            _, owner = self._view.place(self._workspace, run.pipeline)
        return ReportedFailure(
            **self._named(run.pipeline),
            kind=run.key.kind,
            part=self._part(run),
            failures=part.failures,
            status=run.status,
            first_ended_at=part.oldest.end.at,
            last_ended_at=newest.end.at,
            is_time_certain=run.finished_at is not None and "finished_at" not in run.approximate,
            run_ids=part.run_ids,
            reason=_reason(run),
            owner=owner or run.owner,
            recovered_at=newest.recovered_at,
            seen_late=part.seen_late,
        )

    def _part(self, run: RunState) -> str | None:
        if run.key.kind is not RunKind.JOB_GROUP or run.recipe is None:
            return None
        return self._view.recipe_name(self._workspace, run.recipe.id) or run.recipe.name

    async def of_slow(self, groups: RunGroups) -> tuple[SlowRun, ...]:
        self._left_out["slower_than_usual"] = groups.lost_slow
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
        failed: Counter[PipelineId] = Counter()
        named: dict[PipelineId, Pipeline] = {}
        async for failure in in_slices(groups.failures()):
            group, pipeline = groups.grouped(failure)[0], failure.run.pipeline
            if group is not FailureGroup.PART and pipeline is not None:
                key = PipelineId.of(pipeline)
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


def _end_order(failed: FailedRun) -> tuple[datetime, bool, str]:
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


async def _median(values: array[float]) -> float | None:
    if not values:
        return None
    # Arrays, because the end of so many numbers that are objects would hold the loop.
    pieces = [
        array("d", sorted(piece))
        async for piece in in_slices(pieces_of(values, size=_SORTED_AT_ONCE), size=1)
    ]
    ordered = merge(*pieces)
    async for _ in in_slices(range(len(values) // 2), size=_SORTED_AT_ONCE):
        next(ordered)
    return next(ordered)
