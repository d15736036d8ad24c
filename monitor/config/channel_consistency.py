"""Finds contradictions between channels and the rules and workspaces that they name."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.alerting.settings import RuleKind, fits_some
from monitor.config.days_off_consistency import find_days_off_of_channel
from monitor.config.problems import Problems
from monitor.config.reading import ReadTable
from monitor.model.alerts import BRIDGE


def find_channel_contradictions(
    repeated: Mapping[str, list[ReadTable]], problems: Problems
) -> None:
    """Add a problem for everything about channels that does not fit together."""
    workspaces = _names(repeated["workspaces"], problems)
    rules = _names(repeated["alerts"], problems)
    known: dict[str, list[str]] = {}
    if workspaces:
        known["workspace"] = [BRIDGE, *workspaces]
    if rules is not None:
        known["rule"] = [*RuleKind, *rules]
    for channel in repeated["notify"]:
        find_days_off_of_channel(channel, problems)
        if "match" in channel.parts:
            _match(channel.parts["match"], known, problems)


def _names(tables: list[ReadTable], problems: Problems) -> list[str] | None:
    """Return None where a name has a problem, so that nothing that follows from it is another."""
    if any(problems.holds(f"{table.path}.name") for table in tables):
        return None
    return [name for table in tables if (name := table.get("name")) is not None]


def _match(match: ReadTable, known: Mapping[str, list[str]], problems: Problems) -> None:
    for key, words in known.items():
        globs = list(match.get(key))
        if (hint := fits_some(globs, words, key)) is not None:
            problems.add(f"{match.path}.{key}", globs, hint)
