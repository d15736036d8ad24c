"""Finds contradictions in the settings of reports."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.alerting.reports.settings import time_problem
from monitor.alerting.settings import fits_some
from monitor.config.problems import Problems
from monitor.config.reading import ReadTable
from monitor.model.suggestions import did_you_mean

_PAGER = "opens an incident for what it is sent; name a channel for mail or chat"
_SENDS_NOTHING = "name at least one event, such as fired, or let a report name the channel"


def find_report_contradictions(repeated: Mapping[str, list[ReadTable]], problems: Problems) -> None:
    """Add a problem for everything about reports that does not fit together."""
    first: dict[str, str] = {}
    for part in repeated["reports"]:
        name = part.get("name")
        if name is not None and first.setdefault(name, part.path) != part.path:
            hint = f"is the name of {first[name]} already; choose another"
            problems.add(f"{part.path}.name", name, hint)
        _time(part, problems)
        _workspaces(part, repeated["workspaces"], problems)
        _channels(part, repeated["notify"], problems)
    named = {name for part in repeated["reports"] for name in part.get("channels")}
    for channel in repeated["notify"]:
        if channel.get("events") == () and channel.get("name") not in named:
            problems.add(f"{channel.path}.events", [], _SENDS_NOTHING)


def _time(part: ReadTable, problems: Problems) -> None:
    at, zone = part.get("at"), part.get("time_zone")
    # What has a problem of its own is left out of the table, or reported under its key.
    if at is None or problems.holds(f"{part.path}.time_zone"):
        return
    if (hint := time_problem(at, zone)) is not None:
        problems.add(f"{part.path}.at", at, hint)


def _workspaces(part: ReadTable, workspaces: list[ReadTable], problems: Problems) -> None:
    match = part.parts.get("match")
    globs = None if match is None else match.get("workspace")
    names = [name for workspace in workspaces if (name := workspace.get("name")) is not None]
    if globs and names and (hint := fits_some(list(globs), names, "workspace")) is not None:
        problems.add(f"{part.path}.match.workspace", list(globs), hint)


def _channels(part: ReadTable, channels: list[ReadTable], problems: Problems) -> None:
    known = [name for channel in channels if (name := channel.get("name")) is not None]
    named = part.get("channels")
    for name in named:
        if name not in known:
            hint = did_you_mean(name, known) or "; add a [[notify]] of that name"
            sentence = f"no channel is named {name!r}{hint}"
            problems.add(f"{part.path}.channels", list(named), sentence)
    for channel in channels:
        if channel.get("name") in named and channel.get("url") and channel.build().has_incidents:
            sentence = f"{channel.get('name')} {_PAGER}"
            problems.add(f"{part.path}.channels", list(named), sentence)
