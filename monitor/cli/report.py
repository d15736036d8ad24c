"""``report``: what happened in the last night, or another stretch of time."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from monitor.cli import daemon_client, lazy, time_options
from monitor.cli.options import DaemonOptions, OnlyWorkspace
from monitor.cli.tables import print_json
from monitor.model.report_texts import TEXT_WIDTH, report_html, report_markdown, report_text
from monitor.model.reports import Report, ReportPeriod

_WALL_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
_LEAST_WIDTH = 40


class ReportForm(StrEnum):
    """How a report is printed."""

    TEXT = "text"
    HTML = "html"
    JSON = "json"
    MARKDOWN = "markdown"


def report(
    *,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Begin: 18:00 (the last one, in local time), 24h, or an ISO 8601 instant.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="End, in the same forms; now, where it is left out."),
    ] = None,
    period: Annotated[
        ReportPeriod | None, typer.Option(help="Instead of --since: night, day or week.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="REPORT", help="A report of [[reports]], as it was last due."),
    ] = None,
    workspace: OnlyWorkspace = None,
    pipeline: Annotated[
        str | None, typer.Option(help="Only this flow or plan, by its name or id; globs.")
    ] = None,
    output: Annotated[
        ReportForm, typer.Option("--output", "-o", help="How it is printed.")
    ] = ReportForm.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --output json.")] = False,
    daemon: DaemonOptions,
) -> None:
    """Print what happened in the last night, or in another time.

    Failures that go on and that are over, starts that did not come, what was late or slow, and when
    a workspace was not watched. What cannot be known is said. Times are in the time zone of the
    configured report, else in UTC.
    """
    end = None if until is None else _instant("--until", until, before=time_options.now())
    begin = _instant("--since", since, before=end or time_options.now()) if since else None
    query = {
        "since": None if begin is None else begin.isoformat(),
        "until": None if end is None else end.isoformat(),
        "period": period,
        "name": name,
        "workspace": workspace,
        "pipeline": pipeline,
    }
    answer = daemon_client.get(daemon, "/api/v1/report", query)
    _print(answer, ReportForm.JSON if as_json else output)


def _print(answer: Any, form: ReportForm) -> None:
    if form is ReportForm.JSON:
        print_json(answer)
        return
    try:
        made = msgspec.convert(answer, Report)
    except msgspec.ValidationError as exc:
        raise lazy.admin.stranger() from exc
    sys.stdout.write(_WRITERS[form](made))


def _text(made: Report) -> str:
    columns = shutil.get_terminal_size((TEXT_WIDTH, 24)).columns if sys.stdout.isatty() else 0
    width = max(_LEAST_WIDTH, min(columns, TEXT_WIDTH)) if columns else TEXT_WIDTH
    return report_text(made, width=width)


_WRITERS: dict[ReportForm, Callable[[Report], str]] = {
    ReportForm.TEXT: _text,
    ReportForm.HTML: report_html,
    ReportForm.MARKDOWN: report_markdown,
}


def _instant(option: str, text: str, *, before: datetime) -> datetime:
    """Return the instant that an option names: the last such time of day, by the local clock.

    Raises:
        ConfigurationError: it names none.
    """
    if (match := _WALL_TIME.fullmatch(text)) is None:
        span_seconds = time_options.in_seconds(text)
        if span_seconds is None:
            return time_options.instant(option, text, or_else=", or 18:00, or a span as 24h")
        return time_options.since(text)
    wall = before.astimezone().replace(tzinfo=None)
    at = wall.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
    if at >= wall:
        at -= timedelta(days=1)
    return at.astimezone()
