"""Reports of several workspaces or shards as one: nothing lost, nothing twice, nothing endless."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from monitor.alerting.reports.merging import merged_report
from monitor.alerting.reports.report_query import ReportQuery
from monitor.model.reports import (
    ComingStart,
    Report,
    RunCount,
    StretchFigures,
    WorkspaceTrend,
    WorstPipeline,
)
from monitor.model.runs import RunKind, Status
from tests.web.sample_reports import failure, shown

AT = datetime(2026, 11, 21, tzinfo=UTC)
HOUR = timedelta(hours=1)
QUERY = ReportQuery(since=AT - 13 * HOUR, until=AT)


async def merged(*parts: Report) -> Report:
    return await merged_report(parts, QUERY, made_at=AT)


async def test_lists_are_joined_and_counts_are_added() -> None:
    """The newest failure of all stands first; what is missing twice is said once."""
    old, new = failure(last_ended_at=AT - 2 * HOUR), failure(pipeline="sales", last_ended_at=AT)
    failed = RunCount(kind=RunKind.FLOW_RUN, result=Status.FAILED, count=2)

    report = await merged(
        shown(failed_and_still_failing=(old,), counts=(failed,), missing=("x",)),
        shown(failed_and_still_failing=(new,), counts=(failed,), missing=("x",)),
    )

    assert report.failed_and_still_failing == (new, old)
    assert report.runs == 4
    assert report.missing == ("x",)
    assert report.verdict == "sales, orders are still failing; not everything could be known."


async def test_of_all_the_next_ten_starts_and_the_worst_five_are_kept() -> None:
    """By time and by failures, whichever part they come from."""
    parts = [
        shown(
            next_starts=tuple(
                ComingStart(workspace=name, pipeline=f"{name} {hour}", at=AT + hour * HOUR)
                for hour in range(9)
            ),
            worst=tuple(
                WorstPipeline(workspace=name, pipeline=f"{name} {count}", runs=9, failed=count)
                for count in range(4)
            ),
        )
        for name in ("a", "b")
    ]

    report = await merged(*parts)

    assert [start.at for start in report.next_starts] == sorted(
        AT + hour * HOUR for hour in range(5) for _ in parts
    )
    assert [row.failed for row in report.worst] == [3, 3, 2, 2, 1]


async def test_a_list_that_is_cut_says_so() -> None:
    """A page or a mail of thousands of lines is of no help."""
    rows = tuple(failure(pipeline=f"flow {number}") for number in range(512))

    report = await merged(shown(failed_and_still_failing=rows))

    assert len(report.failed_and_still_failing) == 500
    assert report.missing == ("12 lines of failed and still failing left out",)


async def test_each_workspace_keeps_its_own_trend() -> None:
    """Medians of two workspaces cannot be joined."""
    figures = StretchFigures(
        runs=1, success_ratio=1.0, median_seconds=1.0, median_queue_seconds=None
    )
    trends = [WorkspaceTrend(workspace=name, now=figures, before=figures) for name in ("b", "a")]

    report = await merged(*(shown(trends=(trend,)) for trend in trends))

    assert [trend.workspace for trend in report.trends] == ["a", "b"]
