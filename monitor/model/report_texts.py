"""Reports in words: plain text, Markdown and HTML of the same sections and lines. Pure."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct

from monitor.model.reports import (
    Report,
    ReportedDeadline,
    ReportedDelay,
    ReportedFailure,
    ReportedPipeline,
    ReportedStart,
    SlowRun,
    StretchFigures,
    UnwatchedTime,
    WorkspaceTrend,
)
from monitor.model.runs import Status
from monitor.model.words import NOTHING, counted, duration, kind_words, percent

TEXT_WIDTH = 80  # columns
MOST_LINES = 50  # of one section
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+!|~&-])")


class ReportSection(Struct, frozen=True, kw_only=True):
    """A heading and its lines, each one sentence without a line end."""

    title: str
    lines: tuple[str, ...]


def report_title(report: Report) -> str:
    """Return such as ``Report of 2026-11-27 18:00 to 2026-11-28 07:00 (Europe/Berlin)``."""
    at = _instants(report)
    return f"Report of {at(report.since)} to {at(report.until)} ({report.time_zone})"


def report_sections(report: Report) -> list[ReportSection]:
    """Return the sections that have something to say, the worst first."""
    at = _instants(report)
    sections = (
        ("Failed and still failing", _lines(report.failed_and_still_failing, _failure, at)),
        ("Did not start", _lines(report.did_not_start, _start, at)),
        ("Missed deadlines", _lines(report.deadlines.missed, _deadline, at)),
        ("Failed and recovered", _lines(report.failed_and_recovered, _failure, at)),
        ("Over when it was seen", _lines(report.over_when_seen, _failure, at)),
        ("Late", _lines(report.late, _delay, at)),
        ("Slower than usual", _lines(report.slower_than_usual, _slow, at)),
        ("Not watched", _lines(report.unwatched, _unwatched, at)),
        ("Not known", list(report.missing)),
        ("Runs", list(_counts(report))),
        ("Met deadlines", _lines(report.deadlines.met, _deadline, at)),
        ("Compared with the time before", [line for row in report.trends for line in _trend(row)]),
        (
            "Most failures",
            [
                f"{_about(row)}: {row.failed:,} of {counted(row.runs, 'run')}"
                for row in report.worst
            ],
        ),
        ("Next starts", [f"{at(row.at)}: {_about(row)}" for row in report.next_starts]),
    )
    return [ReportSection(title=title, lines=_cut(lines)) for title, lines in sections if lines]


def report_text(report: Report, *, width: int = TEXT_WIDTH) -> str:
    """Return the report for a terminal or a mail, in lines of at most ``width`` columns."""
    parts = [_wrapped(report_title(report), width), _wrapped(_one_line(report.verdict), width)]
    for section in report_sections(report):
        lines = [
            _wrapped(_one_line(line), width, first="  - ", next_="    ") for line in section.lines
        ]
        parts.append("\n".join([section.title, *lines]))
    return "\n\n".join(parts) + "\n"


def report_markdown(report: Report) -> str:
    """Return the report as Markdown; names are escaped, so that none is markup."""
    parts = [f"# {_escaped(report_title(report))}", f"**{_escaped(report.verdict)}**"]
    for section in report_sections(report):
        lines = [f"- {_escaped(line)}" for line in section.lines]
        parts.append("\n".join([f"## {section.title}", "", *lines]))
    return "\n\n".join(parts) + "\n"


def report_html(report: Report) -> str:
    """Return the report as an HTML document without scripts, styles and references."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{_in_html(report_title(report))}</title></head><body>",
        f"<h1>{_in_html(report_title(report))}</h1>",
        f"<p><strong>{_in_html(report.verdict)}</strong></p>",
    ]
    for section in report_sections(report):
        parts.append(f"<h2>{_in_html(section.title)}</h2>")
        lines = (f"<li>{_in_html(line)}</li>" for line in section.lines)
        parts.append(f"<ul>{''.join(lines)}</ul>")
    return "\n".join([*parts, "</body></html>", ""])


At = Callable[[datetime], str]


def _instants(report: Report) -> At:
    zone = ZoneInfo(report.time_zone)
    return lambda at: at.astimezone(zone).strftime("%Y-%m-%d %H:%M")


def _lines(rows: Sequence[Struct], line: Callable[..., str], at: At) -> list[str]:
    return [line(row, at) for row in rows]


def _cut(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) <= MOST_LINES:
        return tuple(lines)
    return (*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES:,} more")


def _about(row: ReportedPipeline) -> str:
    return f"{row.pipeline} in {row.workspace}"


def _failure(row: ReportedFailure, at: At) -> str:
    part = f" ({row.part})" if row.part else ""
    lost = "was lost" if row.status is Status.LOST else "failed"
    when = ("at " if row.is_time_certain else "about ") + at(row.last_ended_at)
    what = f"{_about(row)}{part}: {kind_words(row.kind)} {row.run_ids[0]} {lost} {when}"
    if row.failures > 1:
        what += f", the last of {row.failures:,} since {at(row.first_ended_at)}"
    if row.recovered_at is not None:
        what += f", and one succeeded at {at(row.recovered_at)}"
    if row.seen_late:
        what += f"; {counted(row.seen_late, 'failure')} from before, observed late"
    return f"{what}. {row.reason}" if row.reason else f"{what}."


def _start(row: ReportedStart, at: At) -> str:
    more = f", and {counted(row.missed - 1, 'start')} after it" if row.missed > 1 else ""
    schedule = f" by schedule {row.schedule}" if row.schedule else ""
    over = ""
    if row.over_at is not None:
        over = f"; over since {at(row.over_at)}: {row.why_over}"
    return f"{_about(row)}: expected at {at(row.expected_at)}{schedule}{more}{over}."


def _deadline(row: ReportedDeadline, at: At) -> str:
    succeeded = "no success" if row.succeeded_at is None else f"succeeded {at(row.succeeded_at)}"
    return f"{_about(row)}: due {at(row.deadline)}, {succeeded}."


def _delay(row: ReportedDelay, at: At) -> str:
    until = "" if row.until is None else f" to {at(row.until)}"
    return f"{_about(row)}, {at(row.since)}{until}: {row.text}"


def _slow(row: SlowRun, _: At) -> str:
    return (
        f"{_about(row)}: {kind_words(row.kind)} {row.run_id} took {duration(row.seconds)}, "
        f"{duration(row.over_seconds)} more than the usual {duration(row.usual_seconds)}."
    )


def _unwatched(row: UnwatchedTime, at: At) -> str:
    seconds = (row.until - row.since).total_seconds()
    partly = ", in part" if row.is_partial else ""
    return (
        f"{row.workspace}: {at(row.since)} to {at(row.until)} ({duration(seconds)}){partly}: "
        f"{row.why}"
    )


def _counts(report: Report) -> Iterator[str]:
    kinds = dict.fromkeys(count.kind for count in report.counts)
    for kind in kinds:
        words = ", ".join(
            f"{count.count:,} {count.result}" for count in report.counts if count.kind is kind
        )
        yield f"{kind_words(kind)}s: {words}"


def _trend(row: WorkspaceTrend) -> Iterator[str]:
    now, before = row.now, row.before
    name = row.workspace
    yield f"{name}: {counted(now.runs, 'run')} (before: {before.runs:,})"
    figures: tuple[tuple[str, Callable[[StretchFigures], str]], ...] = (
        ("succeeded", lambda of: percent(of.success_ratio)),
        ("median duration", lambda of: duration(of.median_seconds)),
        ("median time in the queue", lambda of: duration(of.median_queue_seconds)),
    )
    for words, value in figures:
        if (value(now), value(before)) != (NOTHING, NOTHING):
            yield f"{name}: {words} {value(now)} (before: {value(before)})"


def _wrapped(text: str, width: int, *, first: str = "", next_: str = "") -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=next_,
        break_on_hyphens=False,
    )


def _one_line(text: str) -> str:
    """Return a text without control characters, which names and reasons may hold."""
    return "".join(character if character.isprintable() else " " for character in text)


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", _one_line(text))


def _in_html(text: str) -> str:
    return html.escape(_one_line(text))
