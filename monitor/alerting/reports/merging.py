"""Merges the reports of workspaces and shards into one, with its sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

from msgspec.structs import replace

from monitor.alerting.reports.late_reader import MOST_COMING
from monitor.alerting.reports.report_lines import MOST_WORST
from monitor.alerting.reports.report_query import ReportQuery
from monitor.alerting.reports.run_groups import MOST_ROWS
from monitor.model.reports import Deadlines, Report, RunCount, summary_of
from monitor.model.runs import RunKind, Status
from monitor.model.slices import sorted_in_slices
from monitor.model.words import counted

T = TypeVar("T")


async def merged_report(
    parts: Sequence[Report], query: ReportQuery, *, made_at: datetime
) -> Report:
    """Return one report of all parts, each list in its order and of a bounded length."""
    cut: list[str] = []

    async def rows(name: str, order: Callable[[Any], Any], *, is_newest_first: bool = True) -> Any:
        of_all = list(chain.from_iterable(attrgetter(name)(part) for part in parts))
        ordered = await sorted_in_slices(of_all, key=order)
        if is_newest_first:
            ordered.reverse()
        if len(ordered) > MOST_ROWS:
            more = counted(len(ordered) - MOST_ROWS, "line")
            cut.append(f"{more} of {name.replace('_', ' ')} left out")
        return tuple(ordered[:MOST_ROWS])

    report = Report(
        since=query.since,
        until=query.until,
        made_at=made_at,
        time_zone=query.time_zone,
        verdict="",
        failed_and_still_failing=await rows("failed_and_still_failing", _last_ended),
        failed_and_recovered=await rows("failed_and_recovered", _last_ended),
        over_when_seen=await rows("over_when_seen", _last_ended),
        did_not_start=await rows("did_not_start", attrgetter("expected_at", "pipeline")),
        late=await rows("late", attrgetter("since", "pipeline")),
        slower_than_usual=await rows("slower_than_usual", attrgetter("over_seconds", "run_id")),
        unwatched=await rows("unwatched", attrgetter("since", "workspace"), is_newest_first=False),
        deadlines=Deadlines(
            met=await rows("deadlines.met", attrgetter("deadline", "pipeline")),
            missed=await rows("deadlines.missed", attrgetter("deadline", "pipeline")),
        ),
        counts=_counts(parts),
        next_starts=(
            await rows("next_starts", attrgetter("at", "pipeline"), is_newest_first=False)
        )[:MOST_COMING],
        trends=await rows("trends", attrgetter("workspace"), is_newest_first=False),
        worst=(await rows("worst", attrgetter("failed", "pipeline")))[:MOST_WORST],
        missing=_once(chain.from_iterable(part.missing for part in parts)),
    )
    report = replace(report, missing=(*report.missing, *cut))
    return replace(report, verdict=summary_of(report))


_last_ended = attrgetter("last_ended_at", "pipeline", "run_ids")


def _counts(parts: Iterable[Report]) -> tuple[RunCount, ...]:
    found: Counter[tuple[RunKind, Status]] = Counter()
    for count in chain.from_iterable(part.counts for part in parts):
        found[count.kind, count.result] += count.count
    return tuple(
        RunCount(kind=kind, result=result, count=count)
        for (kind, result), count in sorted(found.items())
    )


def _once(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))
