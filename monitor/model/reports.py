"""Reports: what happened to the pipelines in a stretch of time, such as the last night. Pure."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TypedDict

from msgspec import Struct

from monitor.model.runs import PipelineKind, RunKind, Status
from monitor.model.words import counted, listed

_NAMED = 3  # in the sentence of a report
_NAME_CHARACTERS = 60  # of each


class ReportPeriod(StrEnum):
    """The stretch of time that a report covers; each ends when the report is due."""

    NIGHT = "night"
    DAY = "day"
    WEEK = "week"


class ReportedPipeline(Struct, frozen=True, kw_only=True):
    """What a line is about. ``pipeline`` is the name that its series carry."""

    workspace: str
    pipeline: str
    pipeline_kind: PipelineKind | None = None  # this and the next: None where they are not known
    pipeline_id: str | None = None


class PipelineFields(TypedDict):
    """The fields of `ReportedPipeline`, to make lines about one pipeline."""

    workspace: str
    pipeline: str
    pipeline_kind: PipelineKind | None
    pipeline_id: str | None


class ReportedFailure(ReportedPipeline, frozen=True, kw_only=True):
    """The failures of one part of a pipeline: a recipe that runs by itself, else the whole run.

    ``reason`` is that of the newest one, ``recovered_at`` the first success after it. Instants are
    the workspace's.
    """

    kind: RunKind
    part: str | None  # the recipe of lone job groups
    failures: int
    status: Status  # of the newest: failed or lost
    first_ended_at: datetime
    last_ended_at: datetime
    is_time_certain: bool  # the workspace reported the newest end itself
    run_ids: tuple[str, ...]  # the newest first, at most 20
    reason: str | None
    owner: str | None
    recovered_at: datetime | None = None
    seen_late: int = 0  # of ``failures``: ended before the stretch and were observed in it


class ReportedStart(ReportedPipeline, frozen=True, kw_only=True):
    """Starts that a schedule promised and that did not come. Instants are the workspace's."""

    schedule: str | None
    expected_at: datetime  # the first of them
    missed: int
    over_at: datetime | None = None  # when nothing was expected any more
    why_over: str | None = None


class ReportedDelay(ReportedPipeline, frozen=True, kw_only=True):
    """Something that came late, or is late, as an alert found it. Instants are the workspace's.

    A start after its grace, a run that goes on for too long, a success that is overdue.
    """

    rule: str
    text: str
    since: datetime
    until: datetime | None


class SlowRun(ReportedPipeline, frozen=True, kw_only=True):
    """A success that took longer than usual; ``usual_seconds`` is what half of its runs need."""

    kind: RunKind
    run_id: str
    ended_at: datetime  # workspace time
    seconds: float
    usual_seconds: float
    over_seconds: float  # by which the first exceeds the second


class UnwatchedTime(Struct, frozen=True, kw_only=True):
    """A time in which a workspace was not watched, or only in part. Instants are ours."""

    workspace: str
    since: datetime
    until: datetime
    why: str
    is_partial: bool = False  # it answered, but some of what is asked for failed


class ReportedDeadline(ReportedPipeline, frozen=True, kw_only=True):
    """By when a pipeline had to succeed, and when it did. Instants are the workspace's."""

    deadline: datetime
    succeeded_at: datetime | None


class Deadlines(Struct, frozen=True, kw_only=True):
    """Deadlines of the stretch. Empty where no rule judges any."""

    met: tuple[ReportedDeadline, ...] = ()
    missed: tuple[ReportedDeadline, ...] = ()


class RunCount(Struct, frozen=True, kw_only=True):
    """How many runs of one kind ended in one way."""

    kind: RunKind
    result: Status
    count: int


class ComingStart(ReportedPipeline, frozen=True, kw_only=True):
    """The next start that is expected of a pipeline, workspace time."""

    at: datetime


class StretchFigures(Struct, frozen=True, kw_only=True):
    """Figures of the runs that ended in a stretch; None where no run shows one."""

    runs: int
    success_ratio: float | None
    median_seconds: float | None  # of successes
    median_queue_seconds: float | None


class WorkspaceTrend(Struct, frozen=True, kw_only=True):
    """A workspace in this stretch and in the one before, which is as long."""

    workspace: str
    now: StretchFigures
    before: StretchFigures


class WorstPipeline(ReportedPipeline, frozen=True, kw_only=True):
    """A pipeline with many failures in the stretch. The parts of a flow run do not count.

    A failure inside a run that failed counts for that run's pipeline only.
    """

    runs: int
    failed: int


class Report(Struct, frozen=True, kw_only=True):
    """What happened from ``since`` until ``until`` (our clock), as known at ``made_at``.

    The ends of runs lie in the stretch by the workspace's clock; a run that ended before it and was
    observed only in it belongs to it too. What could not be known is said in ``missing``.
    """

    since: datetime
    until: datetime
    made_at: datetime
    time_zone: str = "UTC"  # in which people read it
    verdict: str
    failed_and_still_failing: tuple[ReportedFailure, ...] = ()
    failed_and_recovered: tuple[ReportedFailure, ...] = ()
    over_when_seen: tuple[ReportedFailure, ...] = ()
    did_not_start: tuple[ReportedStart, ...] = ()
    late: tuple[ReportedDelay, ...] = ()
    slower_than_usual: tuple[SlowRun, ...] = ()
    unwatched: tuple[UnwatchedTime, ...] = ()
    deadlines: Deadlines = Deadlines()
    counts: tuple[RunCount, ...] = ()
    next_starts: tuple[ComingStart, ...] = ()
    trends: tuple[WorkspaceTrend, ...] = ()  # of a stretch of six days and more
    worst: tuple[WorstPipeline, ...] = ()  # likewise
    missing: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        """How many runs ended, those inside other runs included."""
        return sum(count.count for count in self.counts)

    @property
    def results(self) -> dict[Status, int]:
        """How many runs ended in each way, of all kinds; the ways that occurred."""
        found: dict[Status, int] = {}
        for count in self.counts:
            found[count.result] = found.get(count.result, 0) + count.count
        return found


def summary_of(report: Report) -> str:
    """Return one sentence: the worst first, and never that all is well while not all was seen."""
    found = [
        _named(report.failed_and_still_failing, "is still failing", "are still failing"),
        _named(report.did_not_start, "did not start", "did not start"),
        _deadlines(report),
        _named(report.failed_and_recovered, "failed and recovered", "failed and recovered"),
        _named(tuple(row for row in report.late if row.until is None), "is late", "are late"),
        _named(tuple(row for row in report.late if row.until), "came late", "came late"),
    ]
    problems = "; ".join(part for part in found if part)
    blind = _blindness(report)
    if problems:
        sentence = problems  # begins with a name, which stays as it is written
    elif report.runs:
        seen = "Of what was seen, " if blind else ""
        sentence = f"{seen}{counted(report.runs, 'run')} ended and nothing is failing"
    else:
        sentence = "No run was seen to end" if blind else "No run ended"
    return f"{sentence}; {blind}." if blind else f"{sentence}."


def _named(rows: tuple[ReportedPipeline, ...], singular: str, plural: str) -> str:
    names = list(dict.fromkeys(_clipped(row.pipeline) for row in rows))
    about = listed(names, most=_NAMED)
    return f"{about} {singular if len(names) == 1 else plural}" if names else ""


def _clipped(name: str) -> str:
    return (
        name
        if len(name) <= _NAME_CHARACTERS
        else f"{name[:_NAME_CHARACTERS]}\N{HORIZONTAL ELLIPSIS}"
    )


def _deadlines(report: Report) -> str:
    return _named(report.deadlines.missed, "missed its deadline", "missed their deadlines")


def _blindness(report: Report) -> str:
    names = sorted({row.workspace for row in report.unwatched})
    if names:
        verb = "was" if len(names) == 1 else "were"
        return f"{listed(names, most=_NAMED)} {verb} not watched all the time"
    return "not everything could be known" if report.missing else ""
