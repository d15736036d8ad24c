"""The settings of reports: their times, the stretches that they cover, and the pipelines."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated

from msgspec import Meta, Struct

from monitor.alerting.reports.report_times import WALL_TIME, skipped_time
from monitor.model.globs import parse_globs
from monitor.model.mute_windows import time_zone_problem
from monitor.model.reports import ReportPeriod
from monitor.model.settings import Setting, problems_of, readable
from monitor.schedules.written_cron import quartz_expression

_NAME = "^[a-z0-9][a-z0-9_-]{0,62}$"


def _report_name(name: str) -> str | None:
    if re.fullmatch(_NAME, name) is None:
        return "use 1 to 63 of a-z, 0-9, _ and -, not _ or - first; it is a part of an event's id"
    return None


def _wall_time(text: str) -> str | None:
    if WALL_TIME.fullmatch(text) is None:
        return "is no time of day; write it as 18:00"
    return None


def _globs(texts: str | list[str]) -> str | None:
    return problems_of([[texts] if isinstance(texts, str) else texts], parse_globs)


class ReportMatch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the report is about: globs with *, ? and [abc], one or a list of them.

    Several of one key mean any, several keys mean all; without a key, everything. One that begins
    with ! excludes what it matches.
    """

    workspace: Annotated[
        tuple[str, ...], Setting("Names of [[workspaces]].", check=_globs, may_be_single=True)
    ] = ()
    pipeline: Annotated[
        tuple[str, ...],
        Setting("Names or ids of flows and plans.", check=_globs, may_be_single=True),
    ] = ()
    folder: Annotated[
        tuple[str, ...],
        Setting("Names of the folders that flows lie in.", check=_globs, may_be_single=True),
    ] = ()
    owner: Annotated[
        tuple[str, ...],
        Setting(
            "Who owns the pipeline, or the run where the pipeline's owner is not known.",
            check=_globs,
            may_be_single=True,
        ),
    ] = ()


class ReportSettings(Struct, frozen=True, kw_only=True):
    """One report. Repeat the table for each further one.

    When it is due, an event report.due is recorded, once; outputs and scripts act on it. Its
    content is computed by who shows or sends it.
    """

    name: Annotated[
        str, Meta(pattern=_NAME), Setting("Its name.", "last-night", check=_report_name)
    ]
    at: Annotated[
        str,
        Setting(
            "When it is due, in plain cron or in Quartz's: at 07:00 from Monday to Friday.",
            "0 7 * * 1-5",
            check=readable(quartz_expression),
        ),
    ]
    time_zone: Annotated[
        str, Setting("The time zone of at and since.", "Europe/Berlin", check=time_zone_problem)
    ] = "UTC"
    period: Annotated[
        ReportPeriod,
        Setting("night: from since until it is due; day: 24 hours; week: 7 days, with trends."),
    ] = ReportPeriod.NIGHT
    since: Annotated[
        str, Setting("Begin of the night, the last such time before it is due.", check=_wall_time)
    ] = "18:00"
    channels: Annotated[
        tuple[str, ...], Setting("Names of the [[notify]] that are to send it.")
    ] = ()
    match: ReportMatch = ReportMatch()

    @property
    def expression(self) -> str:
        """``at`` in Quartz's cron."""
        return quartz_expression(self.at)


@cache
def time_problem(at: str, time_zone: str) -> str | None:
    """Return why a report cannot be due at such a time; None where it can. Both are valid."""
    skipped = skipped_time(quartz_expression(at), time_zone)
    if skipped is None:
        return None
    return (
        f"{skipped:%H:%M} is skipped on {skipped:%Y-%m-%d}, when clocks in {time_zone} go "
        "forward; choose a time that every day has"
    )
